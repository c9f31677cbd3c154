import { createHash } from "node:crypto";
import { findNearest } from "../../shared/config/nearest.ts";
import { Fault, type JsonValue } from "../../shared/fault/fault.ts";
import {
  Sessions,
  type SessionsListSkillsResponse,
  type Skill,
} from "../../shared/gen/fairlead/v1/sessions_pb.ts";
import type { CommandModule, OptionSpec } from "../../shared/terminal/command.ts";
import { toTime, toWords } from "../../shared/terminal/json.ts";
import { isJsonObject, parseJson } from "../../shared/terminal/parse-json.ts";
import { openGateway } from "./open-gateway.ts";
import { check } from "./skills-check.ts";
import { installDeps } from "./skills-install.ts";

const sessionOption: OptionSpec = {
  flags: "--session <id>",
  text: "as this session sees it (default: every skill)",
};

/** The `skills` commands. */
export const commands: readonly CommandModule[] = [
  {
    words: "skills ls",
    summary: "every skill with its owner and state",
    example: "fairlead skills ls",
    options: [sessionOption],
    run: async (input, runtime) => {
      await using gateway = await openGateway(runtime);
      const request = { session: input.text("session") ?? "" };
      const list = await gateway.client(Sessions).listSkills(request, gateway.call());
      const { skills } = list;
      await runtime.output.result({ skills: skills.map(toJson), ...toListJson(list, request) }, () => ({
        columns: ["NAME", "OWNER", "STATE", "REASON", "DESCRIPTION"],
        rows: skills.map((skill) => [
          skill.name,
          skill.owner,
          toWords(skill.state),
          skill.reasons.map((reason) => reason.message).join("; "),
          skill.description,
        ]),
        empty: "no skill is published; a node publishes the folders with SKILL.md in its workspaces",
      }));
    },
  },
  {
    words: "skills show",
    summary: "one skill with its state and every reason",
    example: "fairlead skills show devbox-review",
    args: [{ name: "<name>", text: "the skill's name" }],
    options: [sessionOption],
    run: async (input, runtime) => {
      const name = input.argument("name");
      await using gateway = await openGateway(runtime);
      const request = { session: input.text("session") ?? "" };
      const list = await gateway.client(Sessions).listSkills(request, gateway.call());
      const skill = list.skills.find((one) => one.name === name);
      if (!skill) throw unknownSkill(name, list.skills);
      await runtime.output.result({ ...toJson(skill), ...toListJson(list, request) }, () => toLines(skill));
    },
  },
  {
    words: "skills read",
    summary: "the bytes of a skill's instructions, or of another file of it",
    example: "fairlead skills read devbox-review references/checklist.md",
    args: [
      { name: "<name>", text: "the skill's name" },
      { name: "[file]", text: "a file, relative to the skill's folder (default its instructions)" },
    ],
    options: [sessionOption],
    callsNode: true,
    run: async (input, runtime) => {
      await using gateway = await openGateway(runtime);
      const request = {
        session: input.text("session") ?? "",
        name: input.argument("name"),
        path: input.maybeArgument("file") ?? "",
      };
      const hash = createHash("sha256");
      let digest = "";
      let parts: Buffer[] = [];
      for await (const part of gateway.client(Sessions).readSkill(request, gateway.call())) {
        hash.update(part.chunk);
        digest ||= part.digest;
        if (runtime.output.json) parts.push(Buffer.from(part.chunk));
        else await runtime.output.bytes(part.chunk);
      }
      const seen = `sha256:${hash.digest("hex")}`;
      if (digest !== "" && digest !== seen)
        throw differentDigest(request.name, { expected: digest, actual: seen });
      if (!runtime.output.json) return;
      const bytes = Buffer.concat(parts);
      const json = { name: request.name, path: request.path, sizeBytes: bytes.length, digest: seen };
      await runtime.output.result({ ...json, text: bytes.toString("utf8") }, () => []);
    },
  },
  check,
  installDeps,
];

/** What is said of a whole list: of a session's with how and when it was made. */
function toListJson(
  { snapshot, builtMs, buildReason, staleSinceMs, prompt }: SessionsListSkillsResponse,
  { session }: { readonly session: string },
): { readonly [key: string]: JsonValue } {
  if (session === "") return { snapshot };
  return {
    snapshotId: snapshot,
    builtAt: toTime(Number(builtMs)),
    buildReason,
    ...(staleSinceMs === 0n ? {} : { staleSince: toTime(Number(staleSinceMs)) }),
    prompt,
  };
}

function differentDigest(name: string, details: { expected: string; actual: string }): Fault {
  return new Fault(
    "INTEGRITY_FAILURE",
    `the file of ${name} arrived with another digest than it was sent with`,
    {
      hint: `read it again: fairlead skills read ${name}`,
      details,
    },
  );
}

function unknownSkill(name: string, skills: readonly Skill[]): Fault {
  const nearest = findNearest(
    name,
    skills.map((skill) => skill.name),
  );
  return new Fault("NOT_FOUND", `there is no skill ${name}`, {
    hint: nearest === undefined ? "fairlead skills ls" : `did you mean ${nearest}?`,
    details: { skill: name },
  });
}

function toJson(skill: Skill): { readonly [key: string]: JsonValue } {
  const frontMatter = skill.frontMatterJson === "" ? {} : parseJson(skill.frontMatterJson, "front-matter");
  return {
    name: skill.name,
    description: skill.description,
    owner: skill.owner,
    source: placeOf(skill),
    kind: skill.source,
    workspace: skill.workspace,
    folder: skill.folder,
    state: skill.state,
    reasons: skill.reasons.map(({ code, message, hint, path, line }) => ({
      code,
      message,
      hint,
      path,
      line,
    })),
    digest: skill.digest,
    location: skill.location,
    promptForm: skill.promptForm,
    frontMatter: isJsonObject(frontMatter) ? frontMatter : {},
  };
}

function placeOf({ owner, workspace, folder, source }: Skill): string {
  return workspace === "" ? `${owner}:${source}/${folder}` : `${owner}:/${workspace}/${folder}`;
}

function toLines(skill: Skill): readonly string[] {
  return [
    `name: ${skill.name}`,
    `description: ${skill.description}`,
    `owner: ${skill.owner}`,
    `source: ${placeOf(skill)}`,
    `state: ${toWords(skill.state)}`,
    ...skill.reasons.map(({ code, message, hint, path, line }) => {
      const place = path === "" ? "" : `${path}${line > 0 ? `:${line}` : ""}: `;
      return `reason: ${place}${message} (${code})${hint === "" ? "" : `; ${hint}`}`;
    }),
    `digest: ${skill.digest}`,
    `location: ${skill.location}`,
  ];
}
