import { Fault } from "../../shared/fault/fault.ts";
import { maxDeadlineMs } from "../../shared/rpc/deadline.ts";
import { encodedOf, bytesOf, type Encoded } from "../../shared/rpc/encoded.ts";
import { keepOutcomeMs } from "../../shared/rpc/limits.ts";

/** How much the ledger keeps, and how long. */
export const limitsOfLedger: LedgerLimits = {
  keptMs: keepOutcomeMs,
  longestJobMs: maxDeadlineMs,
  answerBytes: 3 * 1024 * 1024,
  bytes: 64 * 1024 * 1024,
  calls: 100_000,
};

/** What bounds the ledger. */
export interface LedgerLimits {
  /** An outcome is kept for so long after its call ended, in milliseconds. */
  readonly keptMs: number;
  /** A job is known to have begun for so long before its outcome's time begins. */
  readonly longestJobMs: number;
  /** The most that one kept answer may hold, in bytes: it must fit one message when it is asked for. */
  readonly answerBytes: number;
  /** All kept answers together, in bytes. */
  readonly bytes: number;
  readonly calls: number;
}

/** What is kept of an answer. */
export interface KeptAnswer {
  add(message: Encoded): void;
  /** The messages, or undefined when they were too large to be kept. */
  readonly messages: readonly Encoded[] | undefined;
}

/** Keeps the messages of an answer up to the limit of one. */
export function keptAnswer(): KeptAnswer {
  let messages: Encoded[] | undefined = [];
  let keptBytes = 0;
  return {
    add: (message) => {
      if (!messages) return;
      keptBytes += message.byteLength;
      if (keptBytes > limitsOfLedger.answerBytes) messages = undefined;
      else messages.push(encodedOf(Buffer.from(bytesOf(message))));
    },
    get messages() {
      return messages;
    },
  };
}

/** What a repeat gets of a call whose answer was too large to be kept. */
export function noOutcomeFault(callId: string, path: string): Fault {
  return new Fault("OUTCOME_UNKNOWN", `${path} succeeded, but its answer was too large to be kept`, {
    details: { callId, stage: "running", reason: "answer_not_kept" },
  });
}
