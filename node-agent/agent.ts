import path from "node:path";
import { watchConfig } from "../shared/config/watch-config.ts";
import { digestOf } from "../shared/content/digest.ts";
import { faultFromError } from "../shared/fault/fault-from-error.ts";
import { Fault } from "../shared/fault/fault.ts";
import { Files } from "../shared/gen/fairlead/v1/files_pb.ts";
import { PublicationKind } from "../shared/gen/fairlead/v1/link_pb.ts";
import { Tools } from "../shared/gen/fairlead/v1/tools_pb.ts";
import type { Clock } from "../shared/lifetime/clock.ts";
import { Scope } from "../shared/lifetime/scope.ts";
import type { Log } from "../shared/log/log.ts";
import type { Environment } from "../shared/process/environment.ts";
import { serve, type ServedService } from "../shared/rpc/service.ts";
import type { NodeSettings } from "./config/node-settings.ts";
import { createFiles } from "./files/files.ts";
import { expireParts } from "./files/parts.ts";
import type { Jobs } from "./jobs/jobs.ts";
import { createPublicationBoard, type PublicationBoard } from "./link/publications.ts";
import { startMemory } from "./memory/memory.ts";
import { loadIdentity } from "./pairing/identity.ts";
import { readMachineFacts } from "./skills/gate-facts.ts";
import { startSkills } from "./skills/skills.ts";
import { commandPathOf, startAgentInstalls } from "./start-agent-installs.ts";
import { startAgentJobs } from "./start-agent-jobs.ts";
import { type AgentLink, startAgentLink } from "./start-agent-link.ts";
import { createPathJudge } from "./tools/check-call.ts";
import { createCommandFolders } from "./tools/command-folder.ts";
import { createNodeTools, type NodeTools } from "./tools/node-tools.ts";
import { createJobAnswers } from "./tools/recorded-jobs.ts";
import { type Exports, startExports } from "./workspace/exports.ts";
import { startManifests } from "./workspace/manifests.ts";

/** What an agent does not make itself. */
export interface AgentDeps {
  readonly clock: Clock;
  readonly log: Log;
  /** The program's version. */
  readonly version: string;
  /** What the machine calls itself, for people; its host name by default. */
  readonly hostName?: string;
  /** Reads the configuration again, after its file has changed. */
  readonly readSettings: () => Promise<NodeSettings>;
  /** This program's own environment, of which commands and workers get a little. */
  readonly environment: Environment;
  /** How long the first link waits until the skills were searched, in milliseconds; 5 s by default. */
  readonly firstSearchMs?: number;
  /** Whether the jobs end when the agent does; asked as it ends. By default they go on without it, for their time. */
  readonly endsJobs?: () => boolean;
}

/** A running agent. Disposing it drains the link, says goodbye and ends workers and exports. */
export interface Agent extends AsyncDisposable {
  readonly nodeId: string;
  readonly alias: string;
  /** Resolves once the link was up and everything published for the first time; rejects when the agent ended before. */
  readonly ready: Promise<void>;
  /** Resolves with the reason once it is over: a Fault for an identity that only a person can mend. Never rejects. */
  readonly closed: Promise<unknown>;
}

/**
 * Starts the agent of a machine that has joined: exports, workers, tools, and the link that dials for ever. Faults are those
 * of the identity; a workspace that cannot be opened is listed with its fault and keeps nothing else. The caller holds the
 * home, and disposes the agent.
 */
export async function startAgent(settings: NodeSettings, deps: AgentDeps): Promise<Agent> {
  const scope = new Scope("the agent");
  try {
    const identity = await loadIdentity(settings.dir);
    const board = createPublicationBoard();
    const machine = await startMachine(scope, { settings, deps, board, nodeId: identity.nodeId });
    const link = await startAgentLink(scope, {
      identity,
      dir: settings.dir,
      services: machine.services,
      jobs: createJobAnswers(machine.jobs),
      onLinked: (isUp) => machine.jobs.setLinked(isUp),
      board,
      deps,
    });
    endJobsWithAgent(scope, { jobs: machine.jobs, link, deps });
    await followConfig(scope, { settings, deps, apply: machine.apply, problem: link.setConfigProblem });
    return {
      nodeId: identity.nodeId,
      alias: identity.alias,
      ready: link.ready,
      closed: Promise.race([link.closed.then((fault) => reasonOf(scope, fault)), scope.closed]),
      [Symbol.asyncDispose]: () => scope.end(),
    };
  } catch (error) {
    await scope.end(error);
    throw error;
  }
}

/** A link that was ended with the agent has ended for the agent's reason. */
function reasonOf(scope: Scope, fault: Fault): unknown {
  return fault.code === "CANCELLED" && scope.signal.aborted ? scope.signal.reason : fault;
}

interface MachineParts {
  readonly nodeId: string;
  readonly settings: NodeSettings;
  readonly deps: AgentDeps;
  readonly board: PublicationBoard;
}

interface Machine {
  readonly jobs: Jobs;
  readonly services: readonly ServedService[];
  /** Follows other settings, for what is asked from now on. */
  readonly apply: (settings: NodeSettings) => Promise<void>;
}

/** What this machine does for its gateway: files, tools, memory and skills of its exports. */
async function startMachine(scope: Scope, { nodeId, settings, deps, board }: MachineParts): Promise<Machine> {
  const held = { settings };
  const tell = createExportsTeller(board);
  const late: { exports?: Exports } = {};
  const exports = scope.use(
    await startExports(settings.workspaces, {
      homeDir: settings.homeDir,
      limits: settings.limits,
      onChange: () => {
        if (late.exports) tell(late.exports);
      },
    }),
  );
  late.exports = exports;
  tell(exports);
  const manifests = scope.use(
    await startManifests({
      dir: path.join(settings.dir, "manifest"),
      names: settings.workspaces.map((one) => one.name),
      clock: deps.clock,
      log: deps.log.child({ room: "files" }),
    }),
  );
  const files = createFiles(exports, manifests);
  scope.spawn("parts", (signal) => expireParts(exports, { clock: deps.clock, signal }));
  const jobs = await startAgentJobs(scope, { dir: settings.dir, exports, deps });
  const tools = joinTools({ exports, files, jobs, held, deps, board });
  const workers = await startWorkers(scope, { nodeId, held, deps, board });
  return {
    jobs,
    services: [serve(Files, files), serve(Tools, tools.service), ...workers.services],
    apply: async (next) => {
      held.settings = next;
      await exports.apply(next.workspaces);
      tools.refresh();
      await workers.reload();
    },
  };
}

interface JobsEnd {
  readonly jobs: Jobs;
  readonly link: Pick<AgentLink, "closed">;
  readonly deps: AgentDeps;
}

/**
 * Jobs go on without their agent, but not when it was told to end them, nor when its identity has ended. It comes before
 * the end of the link, so that whoever waits for one hears of it.
 */
function endJobsWithAgent(scope: Scope, { jobs, link, deps }: JobsEnd): void {
  let ending: Fault | undefined;
  void link.closed.then(async (fault) => {
    if (fault.code === "CANCELLED") return;
    ending = fault;
    await jobs.endAll(fault);
  });
  scope.defer(async () => {
    if (deps.endsJobs?.() === true)
      ending ??= new Fault("CANCELLED", "the node's agent was stopped", stopped);
    if (ending) await jobs.endAll(ending);
  });
}

const stopped = { details: { reason: "stopped" } } as const;

interface Held {
  /** Those in force now. */
  settings: NodeSettings;
}

interface ToolParts {
  readonly exports: Exports;
  readonly files: ReturnType<typeof createFiles>;
  readonly jobs: Jobs;
  readonly held: Held;
  readonly deps: AgentDeps;
  readonly board: PublicationBoard;
}

function joinTools({ exports, files, jobs, held, deps, board }: ToolParts): NodeTools {
  const tools = createNodeTools({
    files,
    workspaces: () => exports.list().map((one) => one.settings.name),
    exec: {
      settings: () => held.settings.exec,
      path: () => commandPathOf(held.settings),
      environment: deps.environment,
      openFolder: createCommandFolders(exports),
      jobs,
    },
    judgePath: createPathJudge(exports),
    publish: (publication) => board.publish({ ...publication, publication: PublicationKind.TOOLS }),
  });
  board.publish({ ...tools.publication, publication: PublicationKind.TOOLS });
  return tools;
}

interface WorkerParts {
  readonly nodeId: string;
  readonly held: Held;
  readonly deps: AgentDeps;
  readonly board: PublicationBoard;
}

async function startWorkers(
  scope: Scope,
  { nodeId, held, deps, board }: WorkerParts,
): Promise<{ readonly services: readonly ServedService[]; readonly reload: () => Promise<void> }> {
  const { clock, log } = deps;
  const common = {
    workspaces: () => {
      const { workspaces, homeDir, limits } = held.settings;
      return { workspaces, homeDir, limits };
    },
    environment: { HOME: deps.environment["HOME"] ?? "/", PATH: held.settings.path },
    clock,
  };
  const memory = scope.use(startMemory({ ...common, log: log.child({ room: "memory" }) }));
  const skills = scope.use(
    await startSkills({
      ...common,
      log: log.child({ room: "skills" }),
      facts: () =>
        readMachineFacts({
          environment: deps.environment,
          path: () => commandPathOf(held.settings),
          configuration: () => held.settings,
        }),
      ...(deps.firstSearchMs === undefined ? {} : { firstSearchMs: deps.firstSearchMs }),
      publish: (notice) => board.publish(notice),
    }),
  );
  board.publish(skills.notice);
  const installs = await startAgentInstalls({
    nodeId,
    settings: () => held.settings,
    environment: deps.environment,
    skills,
    clock,
  });
  return {
    services: [memory.service, skills.service, installs.service],
    reload: async () => {
      await Promise.all([memory.reload(), skills.reload()]);
    },
  };
}

/** A function that tells what is exported now; an unchanged list has an unchanged digest, and is told to nobody. */
function createExportsTeller(board: PublicationBoard): (exports: Exports) => void {
  let epoch = 0n;
  return (exports) => {
    const shown = exports
      .list()
      .map((one) => [one.settings.name, one.settings.write.length > 0, one.epoch, one.fault?.code ?? ""]);
    epoch += 1n;
    board.publish({
      publication: PublicationKind.WORKSPACES,
      epoch,
      digest: digestOf(JSON.stringify(shown)),
    });
  };
}

interface FollowParts {
  readonly settings: NodeSettings;
  readonly deps: AgentDeps;
  readonly apply: (settings: NodeSettings) => Promise<void>;
  /** Shows why the file is not followed; empty when it is. */
  readonly problem: (message: string) => void;
}

/** Follows the configuration file; one with a mistake is told, and the last good one stays in force. */
async function followConfig(scope: Scope, { settings, deps, apply, problem }: FollowParts): Promise<void> {
  const watch = await watchConfig(
    settings.configFile,
    async () => {
      try {
        await apply(await deps.readSettings());
        problem("");
        deps.log.info("configuration changed and is followed");
      } catch (error) {
        const { code, message } = faultFromError(error);
        problem(message);
        deps.log.warn("configuration is not followed", { code, reason: message });
      }
    },
    { clock: deps.clock },
  );
  scope.use(watch);
}
