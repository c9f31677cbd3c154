import { Fault } from "../../../../shared/fault/fault.ts";
import { foldsNothing } from "../../../../shared/names/folded-name.ts";
import { confirm } from "../../../../shared/terminal/ask.ts";
import type { CommandModule } from "../../../../shared/terminal/command.ts";
import type { Runtime } from "../../../../shared/terminal/runtime.ts";
import { askExport } from "../ask-export.ts";
import { openSyncFolder, resolveLocal, type LocalPlace } from "../local-place.ts";
import { partKeyOf } from "../part-key.ts";
import { parseRemote, type Remote } from "../remote.ts";
import { runTransfer, type Transfer, type TransferCounts, type TransferEnds } from "../transfer.ts";
import { applyPlan, type Applied } from "./apply-plan.ts";
import { type EarlierChanges, followAttempts } from "./earlier-changes.ts";
import { holdTarget } from "./hold-target.ts";
import { leaveTwins } from "./leave-twins.ts";
import {
  createExclusion,
  type FoundTree,
  isLeftOut,
  listLocal,
  listRemote,
  nothingFound,
  type Exclusion,
  type LocalTree,
} from "./list-trees.ts";
import { planSync, type Clash } from "./plan-sync.ts";
import { baseFor, comingOf, type Found, isRemembered, stateAfter, stateBefore } from "./remember.ts";
import { requireSameRoot } from "./root-guard.ts";
import { pullSides, pushSides } from "./sync-sides.ts";
import { readState, writeState, type StatePlace, type SyncState } from "./sync-state.ts";

/** `files sync`. */
export const syncCommand: CommandModule = {
  words: "files sync",
  summary: "make a folder here like one on a node, or with --push the other way",
  example: "fairlead files sync devbox:/app/src ./src --exclude '**/node_modules'",
  args: [
    { name: "<path>", text: "NODE:/WORKSPACE/FOLDER" },
    { name: "<local>", text: "the folder here" },
  ],
  options: [
    { flags: "--push", text: "from here to the node" },
    {
      flags: "--delete",
      text: "remove at the target what the source has not, and what makes room where a folder became a file or a file a folder",
    },
    {
      flags: "--exclude <glob>",
      text: "leave paths out on both sides (**/*.log for a name in every folder); may be given several times",
      many: true,
    },
    { flags: "--dry-run", text: "print the changes and make none" },
    {
      flags: "--accept-root",
      text: "remove with --delete, although the source is another folder than before, or lost most of its files",
    },
  ],
  callsNode: true,
  run: (input, runtime) => {
    const remote = parseRemote(input.argument("path"));
    const local = input.argument("local");
    const job: Omit<SyncJob, "transfer" | "place"> = {
      runtime,
      remote,
      local,
      exclusion: createExclusion(input.texts("exclude")),
      isPush: input.flag("push"),
      deletes: input.flag("delete"),
      isDry: input.flag("dry-run"),
      acceptsRoot: input.flag("accept-root"),
      earlier: followAttempts(),
    };
    return runTransfer(runtime, remote.name, (transfer) => syncAlone({ ...job, transfer }));
  },
};

interface SyncJob {
  readonly runtime: Runtime;
  readonly transfer: Transfer;
  readonly remote: Remote;
  readonly local: string;
  readonly exclusion: Exclusion;
  readonly isPush: boolean;
  readonly deletes: boolean;
  readonly isDry: boolean;
  readonly acceptsRoot: boolean;
  readonly earlier: EarlierChanges;
  readonly place: StatePlace;
}

async function syncAlone(job: Omit<SyncJob, "place">): Promise<TransferCounts & TransferEnds> {
  const { runtime, transfer, remote, isPush } = job;
  const local = await resolveLocal(job.local);
  const place: StatePlace = { dir: runtime.home.dir, key: partKeyOf(remote.shown, local) };
  const target = isPush ? remote.shown : local;
  // A dry run changes nothing.
  using _ = job.isDry ? undefined : await holdTarget({ target, place });
  return await transfer.goOn(remote.workspace, () => sync({ ...job, place }));
}

async function sync(job: SyncJob): Promise<TransferCounts & TransferEnds> {
  const { runtime, transfer, remote, exclusion, isPush, isDry, place } = job;
  const state = await readState(place);
  const remoteTree = await listRemote(transfer, remote, { state, exclusion });
  if (!isPush && remoteTree.identity === undefined) throw noSource(remote.shown);
  await using folder = await openSyncFolder(job.local, !isPush && !isDry);
  if (isPush && !folder) throw noSource(job.local);
  const localTree = await listHere(job, folder, state);
  const traits = isPush ? await askExport(transfer, remote) : undefined;
  const folding = traits?.folding ?? folder?.root.folding ?? foldsNothing;
  const sides = isPush
    ? { source: localTree, target: remoteTree }
    : { source: remoteTree, target: localTree };
  const { source, target } = leaveTwins<FoundTree, FoundTree>(sides, folding);
  const base = baseFor(target, { state, isPush });
  const unread = new Set([...source.problems, ...target.problems].map(({ path }) => path));
  const trees = { source: source.entries, target: target.entries };
  const plan = planSync({ ...trees, base, unread, leftOut: target.leftOut, deletes: job.deletes });
  const found: Found = {
    twins: source.problems.slice(sides.source.problems.length),
    state,
    isPush,
    exclusion,
    remoteTree,
    localTree,
    base,
    unread,
    plan,
  };
  if (isDry || !folder) return resultOf(job, found, nothingApplied);
  await requireSameRoot({
    plan,
    source,
    state,
    base: [...base].filter(([path]) => !isLeftOut(path, exclusion)),
    isPush,
    accepts: job.acceptsRoot,
    ask: (text) => confirm(runtime, text),
  });
  job.earlier.begin({ target: target.entries, plan });
  const coming = comingOf(plan);
  if (coming.size > 0) await writeState(place, { ...stateBefore(found), coming });
  const ends = { transfer, remote, root: folder.root, shown: job.local };
  const applied = await applyPlan(
    plan.changes,
    target.entries,
    traits ? pushSides({ ...ends, acceptsPacked: traits.acceptsPacked }) : pullSides(ends),
  );
  if (!isRemembered(found))
    await writeState(place, await stateAfter(found, { applied, folder, signal: transfer.signal }));
  return resultOf(job, found, applied);
}

const nothingApplied: Applied = { failed: [], copiedFiles: 0, copiedBytes: 0, sentFiles: 0, sent: new Map() };

function noSource(shown: string): Fault {
  return new Fault("NOT_FOUND", `${shown} does not exist`, { details: { path: shown } });
}

async function listHere(
  { runtime, transfer, exclusion }: SyncJob,
  folder: LocalPlace | undefined,
  state: SyncState | undefined,
): Promise<LocalTree> {
  if (!folder) return { ...nothingFound, files: new Map() };
  return await listLocal(folder.root, {
    exclusion,
    known: state?.localFiles ?? new Map<string, never>(),
    nowMs: runtime.clock.now(),
    signal: transfer.signal,
  });
}

function resultOf(job: SyncJob, found: Found, applied: Applied): TransferCounts & TransferEnds {
  const { remoteTree, localTree, twins, plan } = found;
  const problems = [...remoteTree.problems, ...localTree.problems, ...twins];
  const failed = [...problems, ...plan.clashes.map(toProblem), ...applied.failed];
  const [from, to] = job.isPush ? [job.local, job.remote.shown] : [job.remote.shown, job.local];
  // What an earlier attempt has brought is found as the same now, and was sent all the same.
  const earlier = job.earlier.made;
  const brought = earlier.filter(
    ({ action, entry }) => entry.kind === "file" && (action === "create" || action === "change"),
  );
  const broughtBytes = brought.reduce((sum, { entry }) => sum + entry.sizeBytes, 0);
  const filesReused = Math.max(0, plan.sameFiles + applied.copiedFiles - brought.length);
  const copiedBytes = applied.copiedBytes + job.transfer.reusedBytes;
  const bytesReused = Math.max(0, plan.sameBytes + copiedBytes - broughtBytes);
  const changes = [...earlier, ...plan.changes];
  const made = job.isDry ? [] : changes.filter(({ action }) => action === "create");
  return {
    from,
    to,
    files: applied.sentFiles + brought.length + filesReused,
    folders: made.filter(({ entry }) => entry.kind === "folder").length,
    links: made.filter(({ entry }) => entry.kind === "link").length,
    bytes: job.transfer.movedBytes + bytesReused,
    filesReused,
    bytesReused,
    failed,
    failedCount: failed.length,
    source: remoteTree.source,
    changes: changes.map(({ action, entry }) => ({ action, path: entry.path })),
    kept: plan.kept,
  };
}

function toProblem({ path, source, target, kinds }: Clash): { readonly path: string; readonly fault: Fault } {
  const details = { path, source, target };
  if (!kinds) {
    const fault = new Fault("CONFLICT", `${path} differs on both sides; both are left as they are`, {
      details,
      hint: "look at both, and get or put the one that is meant with --if-match any",
    });
    return { path, fault };
  }
  const hint = kinds.wouldDelete
    ? "repeat with --delete: nothing at the target was changed since the last sync"
    : "move what stands at the target away, and repeat the command";
  const fault = new Fault(
    "CONFLICT",
    `${path} is not of the same kind on both sides, a file, a folder or a link; both are left as they are`,
    { details, hint },
  );
  return { path, fault };
}
