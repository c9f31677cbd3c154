import type { JsonObject, MessageInitShape } from "@bufbuild/protobuf";
import { digestOf } from "../../shared/content/digest.ts";
import { compileArguments, type ArgumentCheck } from "../../shared/core-tools/argument-check.ts";
import { coreTools, withWorkspace, type CoreTool } from "../../shared/core-tools/core-tools.ts";
import { Fault } from "../../shared/fault/fault.ts";
import { CallClass } from "../../shared/gen/fairlead/v1/options_pb.ts";
import type { ToolCall, ToolDescriptorSchema, Tools } from "../../shared/gen/fairlead/v1/tools_pb.ts";
import type { CallContext, ServiceImplementation } from "../../shared/rpc/service.ts";
import { createCallCheck, type JudgePath } from "./check-call.ts";
import { createExec, type ExecParts } from "./exec.ts";
import { createList } from "./list.ts";
import { createRead } from "./read.ts";
import type { RunTool, ToolFiles, ToolPart, ToolRun } from "./tool-run.ts";
import { createWrite } from "./write.ts";

/** The state of what this machine publishes. */
export interface ToolPublication {
  /** Rises with each change. */
  readonly epoch: bigint;
  readonly digest: string;
}

/** What the tools of this machine stand on. */
export interface NodeToolsOptions {
  /** The machine's own file operations. */
  readonly files: ToolFiles;
  /** Names of the exports, in their order; asked at each call. */
  readonly workspaces: () => readonly string[];
  readonly exec: ExecParts;
  /** What the machine says of a path before anything is done with it. */
  readonly judgePath: JudgePath;
  /** Told of each change of the publication. */
  readonly publish: (publication: ToolPublication) => void;
}

/** The tools of this machine. Calls end with their own signals; there is nothing else to end. */
export interface NodeTools {
  readonly service: ServiceImplementation<typeof Tools>;
  readonly publication: ToolPublication;
  /** After a change of the configuration: publishes again when something is different. */
  refresh(): void;
}

type Descriptor = MessageInitShape<typeof ToolDescriptorSchema>;

interface PublishedTool {
  readonly tool: CoreTool;
  readonly check: ArgumentCheck;
  readonly run: RunTool;
}

const classes = {
  idempotent: CallClass.IDEMPOTENT,
  job: CallClass.JOB,
  at_most_once: CallClass.AT_MOST_ONCE,
} as const;

/** The tools `exec`, `list`, `read` and `write` of this machine, behind its own permissions. */
export function createNodeTools(options: NodeToolsOptions): NodeTools {
  const runs: Readonly<Record<CoreTool["name"], RunTool>> = {
    exec: createExec(options.exec),
    list: createList(options.files),
    read: createRead(options.files),
    write: createWrite(options.files),
  };
  const published = new Map<string, PublishedTool>(
    coreTools.map((tool) => [
      tool.name,
      { tool, check: compileArguments(withWorkspace(tool.inputSchema)), run: runs[tool.name] },
    ]),
  );
  const describe = (): readonly Descriptor[] =>
    coreTools.map((tool) =>
      toDescriptor(tool, tool.name === "exec" && options.exec.settings().mode === "ask"),
    );
  let publication: ToolPublication = { epoch: 1n, digest: digestOf(JSON.stringify(describe())) };
  const check = createCallCheck({ exec: options.exec, judgePath: options.judgePath });
  const call = (given: ToolCall | undefined, context: CallContext, once: boolean): AsyncIterable<ToolPart> =>
    callTool(given, context, { published, once, workspaces: options.workspaces });
  return {
    get publication() {
      return publication;
    },
    refresh: () => {
      const digest = digestOf(JSON.stringify(describe()));
      if (digest === publication.digest) return;
      publication = { epoch: publication.epoch + 1n, digest };
      options.publish(publication);
    },
    service: {
      listPublished: async () => ({ tools: [...describe()], ...publication, problems: [] }),
      checkCall: async (request, context) => {
        const { found, run } = admitCall(request.call, context, {
          published,
          workspaces: options.workspaces,
        });
        await check(found.tool.name, run);
        return {};
      },
      callIdempotent: async function* callIdempotent(request, context) {
        for await (const answer of call(request.call, context, false)) yield { answer };
      },
      call: async function* callOnce(request, context) {
        for await (const answer of call(request.call, context, true)) yield { answer };
      },
    },
  };
}

function toDescriptor(tool: CoreTool, asks: boolean): Descriptor {
  return {
    name: tool.name,
    title: tool.title,
    description: tool.description,
    inputSchemaJson: JSON.stringify(withWorkspace(tool.inputSchema)),
    callClass: classes[tool.callClass],
    effect: tool.effect,
    asks,
  };
}

interface AdmitParts {
  readonly published: ReadonlyMap<string, PublishedTool>;
  readonly workspaces: () => readonly string[];
}

interface CallParts extends AdmitParts {
  /** Whether the call came as one that runs at most once. */
  readonly once: boolean;
}

async function* callTool(
  given: ToolCall | undefined,
  context: CallContext,
  parts: CallParts,
): AsyncGenerator<ToolPart> {
  const { found, run } = admitCall(given, context, parts);
  if (parts.once !== (found.tool.callClass === "at_most_once")) {
    throw new Fault(
      "INVALID_ARGUMENT",
      `${found.tool.name} was called as a tool of another class than ${found.tool.callClass}`,
      {
        details: { field: "name", side: "node" },
      },
    );
  }
  yield* found.run(run);
}

/** What the gateway let through is checked again: its word is no more than a narrowing. */
function admitCall(
  given: ToolCall | undefined,
  context: CallContext,
  parts: AdmitParts,
): { readonly found: PublishedTool; readonly run: ToolRun } {
  context.signal.throwIfAborted();
  const name = given?.name ?? "";
  const found = parts.published.get(name);
  if (!found) {
    throw new Fault(
      "INVALID_ARGUMENT",
      `this machine publishes no tool ${JSON.stringify(name.slice(0, 64))}`,
      {
        details: { field: "name", side: "node", tool: name.slice(0, 64) },
      },
    );
  }
  const values = given?.arguments ?? {};
  checkOnNode(found.check, values);
  return {
    found,
    run: {
      workspace: chooseWorkspace(values, given?.workspace ?? "", parts.workspaces()),
      arguments: values,
      approvalId: given?.approvalId ?? "",
      context,
    },
  };
}

function checkOnNode(check: ArgumentCheck, given: JsonObject): void {
  try {
    check(given);
  } catch (error) {
    throw error instanceof Fault ? error.with({ details: { side: "node" } }) : error;
  }
}

function chooseWorkspace(given: JsonObject, bound: string, exported: readonly string[]): string {
  const asked = given["workspace"];
  if (typeof asked === "string" && asked !== "") return asked;
  if (bound !== "") return bound;
  const [only, ...more] = exported;
  if (only !== undefined && more.length === 0) return only;
  if (only === undefined) {
    throw new Fault("NOT_FOUND", "this machine exports no workspace", {
      hint: "export one on that machine: fairlead node workspace add NAME DIR",
      details: { side: "node" },
    });
  }
  throw new Fault("INVALID_ARGUMENT", `say which workspace: ${exported.join(", ")}`, {
    details: { field: "workspace", expected: [...exported], side: "node" },
  });
}
