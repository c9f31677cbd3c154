import type { DescMethod } from "@bufbuild/protobuf";
import { Fault } from "../../shared/fault/fault.ts";
import { Role } from "../../shared/gen/fairlead/v1/options_pb.ts";
import {
  type Clock,
  type Deadline,
  raceEach,
  raceSignal,
  startDeadline,
} from "../../shared/lifetime/clock.ts";
import { callTraitsOf } from "../../shared/rpc/call-traits.ts";
import { unknownMethodFault } from "../../shared/rpc/dispatch.ts";
import { nameOfRole } from "../../shared/rpc/principal.ts";
import type { CallContext, ServedService } from "../../shared/rpc/service.ts";
import { methodPath } from "../../shared/rpc/transport.ts";
import { type HeldToken, tokenEndedFault, type Tokens } from "../sessions/tokens.ts";

/** What asking for a role stands on. */
export interface RequireRoleOptions {
  readonly tokens: Pick<Tokens, "require">;
  readonly clock: Clock;
  /** Hears of a call whose role is too low, before its caller does. */
  readonly onRefused: (refused: RefusedCall) => Promise<void>;
}

/** A call of somebody who is known, and may not. */
export interface RefusedCall {
  readonly method: DescMethod;
  /** What was asked; absent where it comes in pieces. */
  readonly request: unknown;
  /** With whom it is from. */
  readonly context: CallContext;
  readonly fault: Fault;
}

type Unary = (request: unknown, context: CallContext) => Promise<unknown>;
type Streaming = (request: unknown, context: CallContext) => AsyncIterable<unknown>;

/** Who was let in, and for how long. */
interface Admitted extends Deadline {
  readonly context: CallContext;
}

/**
 * The same service for callers from anywhere: each call carries `authorization: Bearer TOKEN`, and its token gives the role
 * that its method declares, or a higher one. `UNAUTHENTICATED` without a token that holds, `POLICY_DENIED` with
 * `details.role` when the role is too low. A call ends as soon as its token does.
 */
export function requireRole(
  { service, implementation }: ServedService,
  options: RequireRoleOptions,
): ServedService {
  const guarded: Record<string, unknown> = {};
  for (const method of service.methods) {
    // Who may not know is not told what is served here and what is not.
    const given = implementation[method.localName] ?? refuseUnknown(method);
    const streams = method.methodKind === "server_streaming" || method.methodKind === "bidi_streaming";
    guarded[method.localName] = streams
      ? guardStream(method, given as Streaming, options)
      : guardUnary(method, given as Unary, options);
  }
  return { service, implementation: guarded };
}

function refuseUnknown(method: DescMethod): () => never {
  return () => {
    throw unknownMethodFault(methodPath(method));
  };
}

function guardUnary(method: DescMethod, run: Unary, options: RequireRoleOptions): Unary {
  return async (request, context) => {
    using admitted = await admit({ method, request, context }, options);
    return await raceSignal(run(request, admitted.context), admitted.signal);
  };
}

function guardStream(method: DescMethod, run: Streaming, options: RequireRoleOptions): Streaming {
  return async function* guarded(request, context) {
    using admitted = await admit({ method, request, context }, options);
    yield* raceEach(run(request, admitted.context), admitted.signal);
  };
}

async function admit(
  { method, request, context }: Omit<RefusedCall, "fault">,
  { tokens, clock, onRefused }: RequireRoleOptions,
): Promise<Admitted> {
  // A certificate proves a machine, never a person: it opens nothing here.
  const [, text] = /^Bearer +(\S+)$/i.exec(context.metadata.get("authorization") ?? "") ?? [];
  if (text === undefined) {
    throw new Fault("UNAUTHENTICATED", "a token is needed", {
      hint: "set FAIRLEAD_TOKEN, or fairlead login URL",
    });
  }
  const { token, lease } = await tokens.require(text);
  const { role = Role.UNSPECIFIED, user, id: tokenId, expiresAt } = token;
  const known: CallContext = { ...context, principal: { user, role, tokenId, expiresAt } };
  const fault = roleFault(method, role);
  if (fault) {
    await onRefused({ method, request, context: known, fault });
    throw fault;
  }
  const deadline = startExpiry({ token, lease }, context, clock);
  return {
    signal: deadline.signal,
    context: { ...known, signal: deadline.signal },
    [Symbol.dispose]: () => deadline[Symbol.dispose](),
  };
}

function roleFault(method: DescMethod, role: Role): Fault | undefined {
  const { leastRole } = callTraitsOf(method);
  // What declares no role is for the gateway's own machine alone.
  if (leastRole !== Role.UNSPECIFIED && role >= leastRole) return undefined;
  const needed = nameOfRole(leastRole) || "local";
  const has =
    role === Role.UNSPECIFIED ? "the token opens sessions and gives no role" : `it is ${nameOfRole(role)}`;
  return new Fault("POLICY_DENIED", `${method.parent.name}.${method.name} needs the role ${needed}; ${has}`, {
    hint:
      leastRole === Role.UNSPECIFIED
        ? "run it on the gateway's machine"
        : `use a token of: fairlead tokens create --role ${needed}`,
    details: { side: "gateway", rule: "role", role: needed },
  });
}

/** Node's timers hold no more. */
const longestTimerMs = 2 ** 31 - 1;

function startExpiry({ token, lease }: HeldToken, { signal }: CallContext, clock: Clock): Deadline {
  const outer = AbortSignal.any([signal, lease.signal]);
  const leftMs = token.expiresAt - clock.now();
  if (leftMs > longestTimerMs) return { signal: outer, [Symbol.dispose]: () => undefined };
  return startDeadline({ timeoutMs: leftMs, signal: outer, clock, fault: () => tokenEndedFault(token) });
}
