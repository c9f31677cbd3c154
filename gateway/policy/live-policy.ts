import { watchConfig } from "../../shared/config/watch-config.ts";
import { writePrivateFile } from "../../shared/identity/private-files.ts";
import type { Clock } from "../../shared/lifetime/clock.ts";
import { Scope } from "../../shared/lifetime/scope.ts";
import { type EntryMeaning, explainEntries, findWarnings } from "./meaning.ts";
import { parsePolicy, type PolicyRules, type PolicyText, type ToolLists } from "./policy-file.ts";
import { createPolicy, type Policy } from "./policy.ts";
import { readPolicy, type PolicyPlace } from "./read-policy.ts";

/** A text that is valid. */
export interface CheckedPolicy {
  readonly rules: PolicyRules;
  /** What it allows though it may not be meant so. */
  readonly warnings: readonly string[];
  /** What each entry of its rules for files means. */
  readonly entries: readonly EntryMeaning[];
}

/** A policy that follows its file. Disposing ends the following. */
export interface LivePolicy extends Policy, AsyncDisposable {
  /** The text in force; undefined: there is no file. */
  text(): PolicyText | undefined;
  /** Fails with the mistake in a text, and changes nothing. */
  check(file: PolicyText): CheckedPolicy;
  /** Puts a text in force and into the file, or fails and changes nothing. */
  apply(text: string): Promise<void>;
  /** Calls `listener` after each change, until it is disposed. */
  onChange(listener: () => void): Disposable;
}

/** What a live policy is made of. */
export interface LivePolicyOptions {
  readonly agents: Readonly<Record<string, ToolLists>>;
  readonly place: PolicyPlace;
  readonly clock: Clock;
  /** Hears of a file that cannot be taken; the last good policy stays in force. */
  readonly onFault: (error: unknown) => void;
  /** Hears that another text is in force. */
  readonly onTaken: () => void;
  /** Hears what the text in force allows though it may not be meant so: at the start, and of each other text. */
  readonly onWarning: (warning: string) => void;
}

/** Reads the policy file and follows it; a mistake in it is a fault at the start, and later leaves the last good one. */
export async function openPolicy(options: LivePolicyOptions): Promise<LivePolicy> {
  const { agents, place } = options;
  const compile = (file: PolicyText | undefined): Policy =>
    createPolicy({ agents, ...(file ? { file } : {}) });
  let text = await readPolicy(place);
  let policy = compile(text);
  const warn = (): void => {
    for (const warning of text ? describe(text).warnings : []) options.onWarning(warning);
  };
  warn();
  const listeners = new Set<() => void>();
  const take = (next: PolicyText | undefined): void => {
    if (next?.text === text?.text) return;
    policy = compile(next);
    text = next;
    options.onTaken();
    warn();
    for (const listener of listeners) listener();
  };
  const scope = new Scope("the policy");
  scope.use(
    await watchConfig(
      place.policyFile,
      async () => {
        try {
          take(await readPolicy(place));
        } catch (error) {
          options.onFault(error);
        }
      },
      { clock: options.clock, intervalMs: lookEveryMs },
    ),
  );
  return {
    decideTool: (question) => policy.decideTool(question),
    decideFile: (question) => policy.decideFile(question),
    explainFile: (question) => policy.explainFile(question),
    profileOf: (node) => policy.profileOf(node),
    text: () => text,
    check: (file) => {
      compile(file);
      return describe(file);
    },
    apply: async (content) => {
      const next = { name: place.policyFile, text: content };
      compile(next);
      await writePrivateFile(place.policyFile, content);
      take(next);
    },
    onChange: (listener) => {
      listeners.add(listener);
      return { [Symbol.dispose]: () => void listeners.delete(listener) };
    },
    [Symbol.asyncDispose]: () => scope.end(),
  };
}

function describe(file: PolicyText): CheckedPolicy {
  const rules = parsePolicy(file);
  return { rules, warnings: findWarnings(file.name, rules), entries: explainEntries(rules) };
}

/** A change holds within a second, for what runs too. */
const lookEveryMs = 300;
