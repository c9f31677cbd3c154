import { isAbsolute, resolve } from "node:path";
import { Fault } from "../../shared/fault/fault.ts";
import { Lease } from "../../shared/lifetime/lease.ts";
import { isUnavailableReason, type UnavailableReason, workspaceUnavailable } from "./unavailable.ts";

/**
 * What a host offers of a workspace: objects with methods, by the name of what they are for, such as `files`, `memory` or
 * `skills`. What it does not offer it leaves away.
 */
export type WorkspaceAccess = Readonly<Record<string, object | undefined>>;

/** An active registration. Releasing it twice is harmless, also after another took its place. */
export interface AccessRegistration extends Disposable {
  /** Ends what was handed out; the workspace stays remote. `stopped` by default. */
  release(reason?: UnavailableReason): void;
}

/** Workspaces of agents that lie on other machines, by the absolute path that stands for them on the gateway. */
export interface AgentWorkspaces {
  /** Makes a path remote before its host is there, so that no file of the gateway stands in for it. Twice is as once. */
  declare(path: string): void;
  /** Makes it usable; `ALREADY_EXISTS` while another registration of the path is active. */
  register(path: string, access: WorkspaceAccess): AccessRegistration;
  /**
   * What the host offers: each method fails with `WORKSPACE_ACCESS_UNAVAILABLE` once the registration has ended, before
   * it waits and after it. Undefined for a path that was never declared, which is the gateway's own. A declared one whose
   * host is not there fails with `WORKSPACE_ACCESS_UNAVAILABLE` and `details.reason`.
   */
  acquire<A extends WorkspaceAccess = WorkspaceAccess>(path: string): A | undefined;
  /** Why a path cannot be used; undefined for one that can, and for the gateway's own. */
  reasonOf(path: string): UnavailableReason | undefined;
}

interface Bound {
  lease: Lease | undefined;
  access: WorkspaceAccess | undefined;
  reason: UnavailableReason;
  epoch: number;
}

/** Workspaces of which none is known yet. A path that is not absolute is `INVALID_ARGUMENT`. */
export function createAgentWorkspaces(): AgentWorkspaces {
  const known = new Map<string, Bound>();
  const know = (path: string): Bound => {
    const key = toKey(path);
    const bound = known.get(key) ?? { lease: undefined, access: undefined, reason: "not_started", epoch: 0 };
    known.set(key, bound);
    return bound;
  };
  return {
    declare: (path) => void know(path),
    register: (path, access) => {
      const bound = know(path);
      if (bound.lease?.isActive === true)
        throw new Fault("ALREADY_EXISTS", `the workspace ${path} is registered already`, {
          details: { workspace: path },
          hint: "release the other registration first",
        });
      bound.epoch += 1;
      const ended = (reason: string): Fault =>
        workspaceUnavailable(isUnavailableReason(reason) ? reason : "stopped", { shown: path });
      const lease = new Lease({ what: `workspace ${path}`, epoch: bound.epoch, ended });
      bound.lease = lease;
      bound.access = guardAccess(access, lease);
      const release = (reason: UnavailableReason = "stopped"): void => {
        if (!lease.isActive) return;
        bound.reason = reason;
        bound.access = undefined;
        lease.end(reason);
      };
      return { release, [Symbol.dispose]: () => release() };
    },
    acquire: <A extends WorkspaceAccess>(path: string): A | undefined => {
      const bound = known.get(toKey(path));
      if (!bound) return undefined;
      if (!bound.access) throw workspaceUnavailable(bound.reason, { shown: path });
      return bound.access as A;
    },
    reasonOf: (path) => {
      const bound = known.get(toKey(path));
      return !bound || bound.access ? undefined : bound.reason;
    },
  };
}

function toKey(path: string): string {
  if (isAbsolute(path)) return resolve(path);
  throw new Fault("INVALID_ARGUMENT", `${JSON.stringify(path.slice(0, 200))} is no absolute path`, {
    details: { field: "path" },
  });
}

function guardAccess(access: WorkspaceAccess, lease: Lease): WorkspaceAccess {
  const guarded = Object.entries(access).map(
    ([name, part]) => [name, part && guardMethods(part, lease)] as const,
  );
  return Object.freeze(Object.fromEntries(guarded));
}

/** The object with every method under the lease; values that are no functions are as they are. */
function guardMethods(part: object, lease: Lease): object {
  return new Proxy(part, {
    get: (target, key) => {
      const value: unknown = Reflect.get(target, key, target);
      if (typeof value !== "function") return value;
      return (...args: readonly unknown[]): unknown => {
        lease.check();
        return guardResult(Reflect.apply(value, target, args), lease);
      };
    },
  });
}

function guardResult(result: unknown, lease: Lease): unknown {
  if (result instanceof Promise) return lease.during(() => result);
  if (typeof result === "object" && result !== null && Symbol.asyncIterator in result)
    return guardItems(result as AsyncIterable<unknown>, lease);
  return result;
}

/** Ends with the lease, also while the next item is waited for. */
async function* guardItems(items: AsyncIterable<unknown>, lease: Lease): AsyncGenerator<unknown, void> {
  const iterator = items[Symbol.asyncIterator]();
  const over = Promise.withResolvers<never>();
  over.promise.catch(() => undefined);
  const end = (): void => over.reject(lease.signal.reason);
  lease.signal.addEventListener("abort", end, { once: true });
  try {
    for (;;) {
      lease.check();
      const next = await Promise.race([iterator.next(), over.promise]);
      lease.check();
      if (next.done === true) return;
      yield next.value;
    }
  } finally {
    lease.signal.removeEventListener("abort", end);
    // One that still waits ends when it wakes; nobody waits for that.
    iterator.return?.().catch(() => undefined);
  }
}

const code = "WORKSPACE_ACCESS_UNAVAILABLE";
/** Longest chain of causes that is looked through. */
const maxErrors = 1_000;

/**
 * Whether an error says that a workspace cannot be reached: itself, one that it was caused by, or one of several that it
 * stands for. Told by its code, so that errors of another installed copy of this package are known as well; no message
 * ever counts.
 */
export function isWorkspaceUnavailable(error: unknown): boolean {
  const seen = new Set<unknown>();
  const waiting: unknown[] = [error];
  for (let one = waiting.pop(); one !== undefined && seen.size < maxErrors; one = waiting.pop()) {
    if (typeof one !== "object" || one === null || seen.has(one)) continue;
    seen.add(one);
    if ("code" in one && one.code === code) return true;
    if ("cause" in one) waiting.push(one.cause);
    if ("errors" in one && Array.isArray(one.errors)) waiting.push(...(one.errors as readonly unknown[]));
  }
  return false;
}
