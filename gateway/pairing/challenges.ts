import { createHmac, randomBytes, timingSafeEqual } from "node:crypto";
import { Fault } from "../../shared/fault/fault.ts";
import type { Clock } from "../../shared/lifetime/clock.ts";

/** How long a nonce is good. */
const nonceLifeMs = 60_000;
/** Most nonces that are remembered as used. */
const maxUsed = 10_000;
const randomBytesCount = 16;
const macBytes = 32;

/** A nonce, and until when it is good. */
export interface Nonce {
  readonly bytes: Uint8Array;
  /** In milliseconds since 1970. */
  readonly expiresAt: number;
}

/**
 * Nonces of this process: each carries its time and a seal, so that asking for them costs no memory, however many ask.
 * Only those that were used with a good proof are remembered, until their minute is over.
 */
export interface Challenges {
  /** A fresh one. */
  create(): Nonce;
  /** `UNAUTHENTICATED` unless this process made the nonce within the minute and it was not used. */
  check(nonce: Uint8Array): void;
  /** Takes it, once; `UNAUTHENTICATED` for the second. `RATE_LIMITED` while 10,000 of the last minute are remembered. */
  use(nonce: Uint8Array): void;
}

/** Nonces under a key of their own: those of an earlier process are none. */
export function createChallenges(clock: Clock): Challenges {
  const key = randomBytes(32);
  const used = new Map<string, number>();
  const seal = (head: Uint8Array): Buffer => createHmac("sha256", key).update(head).digest();
  const check = (nonce: Uint8Array): void => {
    const expiresAt = readNonce(nonce, seal);
    if (expiresAt === undefined || clock.now() >= expiresAt || used.has(nameOf(nonce))) throw refused();
  };
  return {
    create: () => {
      const expiresAt = clock.now() + nonceLifeMs;
      const head = Buffer.alloc(randomBytesCount + 8);
      randomBytes(randomBytesCount).copy(head);
      head.writeDoubleBE(expiresAt, randomBytesCount);
      return { bytes: new Uint8Array(Buffer.concat([head, seal(head)])), expiresAt };
    },
    check,
    use: (nonce) => {
      check(nonce);
      for (const [name, expiresAt] of used) if (clock.now() >= expiresAt) used.delete(name);
      if (used.size >= maxUsed) throw tooMany();
      used.set(nameOf(nonce), clock.now() + nonceLifeMs);
    },
  };
}

function readNonce(nonce: Uint8Array, seal: (head: Uint8Array) => Buffer): number | undefined {
  if (nonce.length !== randomBytesCount + 8 + macBytes) return undefined;
  const bytes = Buffer.from(nonce);
  const head = bytes.subarray(0, -macBytes);
  return timingSafeEqual(seal(head), bytes.subarray(-macBytes))
    ? head.readDoubleBE(randomBytesCount)
    : undefined;
}

function nameOf(nonce: Uint8Array): string {
  return Buffer.from(nonce).toString("base64");
}

function refused(): Fault {
  return new Fault("UNAUTHENTICATED", "the nonce is not one of this gateway, too old, or was used", {
    retryable: true,
    details: { reason: "nonce_refused" },
  });
}

function tooMany(): Fault {
  return new Fault("RATE_LIMITED", `${maxUsed} lapsed certificates were renewed within a minute`, {
    details: { retryAfterMs: nonceLifeMs, limit: maxUsed },
  });
}
