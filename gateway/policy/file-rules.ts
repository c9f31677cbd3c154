import { Fault } from "../../shared/fault/fault.ts";
import { createGlobSet, type GlobSet } from "../../shared/names/glob.ts";
import {
  type AskMode,
  findDeadDenials,
  judgePath,
  type PathDecision,
} from "../../shared/names/path-rules.ts";
import type { WorkspacePath } from "../../shared/names/workspace-path.ts";

/** An operation on files. */
export type FileVerb = "list" | "read" | "write" | "remove" | "move" | "mkdir";

/** A layer of the rules for files: it narrows what nodes offer, and never adds to it. */
export interface FileRules {
  /** Ids of the nodes that it is for; absent: every node. A node that is renamed keeps its rules. */
  readonly nodes?: readonly string[] | undefined;
  /** The agents that it is for; absent: every one. */
  readonly agents?: readonly string[] | undefined;
  /** Names of the exports that it is for; absent: every one. */
  readonly workspaces?: readonly string[] | undefined;
  /** What may be listed and read, by glob; absent: all of it. */
  readonly read?: readonly string[] | undefined;
  /** What may be changed, by glob; absent: all of it. */
  readonly write?: readonly string[] | undefined;
  /** What is neither read nor changed, by glob. */
  readonly deny?: readonly string[] | undefined;
  /** When a person is asked; never by default. */
  readonly ask?: AskMode | undefined;
  /** Whether what may be changed may also be removed; it may by default. */
  readonly remove?: boolean | undefined;
  /** Whether what may be changed may also be renamed; it may by default. */
  readonly move?: boolean | undefined;
  /** Whether folders may be made where may be changed; they may by default. */
  readonly mkdir?: boolean | undefined;
}

/** One path as the layers are asked about it. */
export interface LayerQuestion {
  readonly agent: string;
  readonly nodeId: string;
  readonly workspace: string;
  readonly verb: FileVerb;
  readonly path: WorkspacePath;
  /** Whether the volume takes upper and lower case for one: then a denial does so too. */
  readonly ignoresCase?: boolean | undefined;
  /** The standing grant that covers exactly this, when there is one; its id. */
  readonly findGrant?: (() => string | undefined) | undefined;
}

/** What the layers say together. */
export interface LayersDecision extends PathDecision {
  /** The layer that decided; undefined when none is for this. */
  readonly layer: string | undefined;
  /** The id of the grant by which it is allowed. */
  readonly grantId: string | undefined;
  /** Whether some path of the workspace is asked for. */
  readonly mayAsk: boolean;
}

/** What one layer says of a path. */
export interface LayerStep extends PathDecision {
  readonly layer: string;
  /** The list by which this kind of operation is allowed. */
  readonly list: "read" | "write";
  /** The entries of that list; `**` where the layer has none. */
  readonly entries: readonly string[];
}

/** Compiled layers. */
export interface FileLayers {
  judge(question: LayerQuestion): LayersDecision;
  /** What each layer that is for this says, in their order. */
  explain(question: LayerQuestion): readonly LayerStep[];
}

interface Layer {
  readonly name: string;
  readonly rules: FileRules;
  readonly deny: GlobSet;
  /** The same, for volumes that ignore case. */
  readonly denyFolded: GlobSet;
  readonly read: GlobSet;
  readonly write: GlobSet;
}

/** Compiles the layers in their order; a malformed glob, and a deny that does not deny, is `INVALID_ARGUMENT`. */
export function compileFileRules(rules: Readonly<Record<string, FileRules>> | undefined): FileLayers {
  const layers = Object.entries(rules ?? {}).map(([name, layer]) => compileLayer(name, layer));
  return {
    judge: (question) => {
      const found = layers.filter(({ rules: layer }) => isFor(layer, question));
      const mayAsk = found.some(({ rules: layer }) => (layer.ask ?? "off") !== "off");
      let decided: LayersDecision = { ...undecided, mayAsk };
      for (const layer of found) {
        const said = judgeLayer(layer, question);
        const grantId = said.rule.startsWith("grant ") ? said.rule.slice(6) : undefined;
        if (isStronger(said, grantId, decided)) decided = { ...said, layer: layer.name, grantId, mayAsk };
      }
      return decided;
    },
    explain: (question) =>
      layers
        .filter(({ rules: layer }) => isFor(layer, question))
        .map((layer) => {
          const list = isReading(question.verb) ? "read" : "write";
          const entries = layer[list].globs.map(({ pattern }) => pattern);
          return { ...judgeLayer(layer, question), layer: layer.name, list, entries };
        }),
  };
}

const undecided = { decision: "allow", rule: "default", layer: undefined, grantId: undefined } as const;

const strength = { allow: 0, ask: 1, deny: 2 } as const;

/** A denial beats a question, that beats a permission; of permissions the one by a grant is told. */
function isStronger(said: PathDecision, grantId: string | undefined, decided: LayersDecision): boolean {
  if (decided.layer === undefined) return true;
  if (strength[said.decision] !== strength[decided.decision])
    return strength[said.decision] > strength[decided.decision];
  return said.decision === "allow" && decided.grantId === undefined && grantId !== undefined;
}

function isFor({ nodes, agents, workspaces }: FileRules, question: LayerQuestion): boolean {
  return (
    (nodes?.includes(question.nodeId) ?? true) &&
    (agents?.includes(question.agent) ?? true) &&
    (workspaces?.includes(question.workspace) ?? true)
  );
}

const isReading = (verb: FileVerb): boolean => verb === "list" || verb === "read";

const nothing = createGlobSet([]);
const everything = ["**"];

function judgeLayer(layer: Layer, question: LayerQuestion): PathDecision {
  const { verb, path, findGrant, ignoresCase } = question;
  const isOff = (verb === "remove" || verb === "move" || verb === "mkdir") && layer.rules[verb] === false;
  const allow = isReading(verb) ? layer.read : layer.write;
  const rules = {
    deny: ignoresCase === true ? layer.denyFolded : layer.deny,
    ask: layer.rules.ask ?? "off",
    allow: isOff ? nothing : allow,
    ...(findGrant ? { findGrant } : {}),
  };
  const said = judgePath(rules, path);
  return isOff && said.rule === "no_allow" ? { decision: "deny", rule: `${verb}_off` } : said;
}

function compileLayer(name: string, rules: FileRules): Layer {
  const compile = (
    field: "deny" | "read" | "write",
    patterns: readonly string[],
    foldCase = false,
  ): GlobSet => {
    for (const pattern of patterns) refuseHome(pattern, `files.${name}.${field}`);
    return createGlobSet(
      patterns.map((pattern) => pattern.normalize("NFC")),
      { field: `files.${name}.${field}`, foldCase },
    );
  };
  const deny = compile("deny", rules.deny ?? []);
  const denyFolded = compile("deny", rules.deny ?? [], true);
  const [dead] = [...findDeadDenials(deny), ...findDeadDenials(denyFolded)];
  if (dead) throw deadDenial(name, dead.pattern);
  return {
    name,
    rules,
    deny,
    denyFolded,
    read: compile("read", rules.read ?? everything),
    write: compile("write", rules.write ?? everything),
  };
}

/** Only a node knows its users' homes: taken for the gateway's own it would mean another folder. */
function refuseHome(pattern: string, field: string): void {
  if (!/^~(?:[/\\]|$)/.test(pattern)) return;
  throw new Fault("INVALID_ARGUMENT", `${field}: ${pattern} means a home, which only the node knows`, {
    details: { field },
    hint: "write ~ in the node's own configuration, or a path of the workspace here",
  });
}

function deadDenial(name: string, pattern: string): Fault {
  const field = `files.${name}.deny`;
  return new Fault("INVALID_ARGUMENT", `${field}: ${pattern} does not deny what it seems to`, {
    details: { field, rule: pattern },
    hint: "write it in a simpler form, without ranges in braces",
  });
}
