import type { JsonObject, MessageInitShape } from "@bufbuild/protobuf";
import { digestOf } from "../../shared/content/digest.ts";
import { compileArguments, type ArgumentCheck } from "../../shared/core-tools/argument-check.ts";
import { coreTools, withWorkspace, type CoreTool } from "../../shared/core-tools/core-tools.ts";
import { Fault } from "../../shared/fault/fault.ts";
import { CallClass } from "../../shared/gen/fairlead/v1/options_pb.ts";
import type {
  ToolCall,
  ToolDescriptorSchema,
  Tools,
  ToolsCallJobRequest,
} from "../../shared/gen/fairlead/v1/tools_pb.ts";
import { fromWireFault } from "../../shared/rpc/fault-wire.ts";
import type { CallContext, ServiceImplementation } from "../../shared/rpc/service.ts";
import type { Jobs } from "../jobs/jobs.ts";
import { createCallCheck, type JudgePath } from "./check-call.ts";
import { createExec, type ExecParts } from "./exec.ts";
import { answerOfJob } from "./job-answer.ts";
import { createList } from "./list.ts";
import { createRead } from "./read.ts";
import { getJob } from "./recorded-jobs.ts";
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
  const call = (given: ToolCall | undefined, context: CallContext, as: CalledAs): AsyncIterable<ToolPart> =>
    callTool(given, context, { published, as, workspaces: options.workspaces });
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
        // While a person is asked there is time to get ready.
        if (found.tool.callClass === "job") options.exec.jobs.prepare();
        return {};
      },
      callIdempotent: async function* callIdempotent(request, context) {
        for await (const answer of call(request.call, context, "idempotent")) yield { answer };
      },
      call: async function* callOnce(request, context) {
        for await (const answer of call(request.call, context, "at_most_once")) yield { answer };
      },
      ...jobMethods(options.exec.jobs, (request, context) => call(request.call, context, "job")),
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

type CalledAs = CoreTool["callClass"];

interface CallParts extends AdmitParts {
  /** The class of the method that the call came by. */
  readonly as: CalledAs;
}

/** A job may be called as what runs at most once too: so do gateways that know of no jobs. */
function fitsClass(tool: CoreTool, as: CalledAs): boolean {
  return as === tool.callClass || (as === "at_most_once" && tool.callClass === "job");
}

function jobMethods(
  jobs: Pick<Jobs, "find">,
  call: (request: ToolsCallJobRequest, context: CallContext) => AsyncIterable<ToolPart>,
): ServiceImplementation<typeof Tools> {
  return {
    callJob: async function* callJob(request, context) {
      for await (const answer of call(request, context)) yield { answer };
    },
    attachJob: async function* attachJob({ callId, stdoutOffset, stderrOffset, owns }, { signal }) {
      const job = await getJob(jobs, callId);
      const from = { stdout: Number(stdoutOffset), stderr: Number(stderrOffset) };
      for await (const answer of answerOfJob(job, { from, signal, owns })) yield { answer };
    },
    endJob: async ({ callId, reason }) => {
      const job = await getJob(jobs, callId);
      const why = reason ? fromWireFault(reason) : new Fault("CANCELLED", "the job was ended");
      await job.end(why);
      return {};
    },
  };
}

async function* callTool(
  given: ToolCall | undefined,
  context: CallContext,
  parts: CallParts,
): AsyncGenerator<ToolPart> {
  const { found, run } = admitCall(given, context, parts);
  if (!fitsClass(found.tool, parts.as)) {
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
  const workspace = chooseWorkspace(values, given?.workspace ?? "", parts.workspaces());
  return {
    found,
    run: {
      workspace,
      leaseEpoch: workspace === given?.workspace ? given.leaseEpoch : 0n,
      pin: given?.pin,
      arguments: values,
      approvalId: given?.approvalId ?? "",
      sessionId: given?.sessionId ?? "",
      agent: given?.agent ?? "",
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
