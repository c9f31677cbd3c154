import { faultRow, type FaultCode } from "./codes.ts";

/** Facts that travel with a fault: plain JSON, no secrets, no absolute paths. Shared keys are listed in the manual. */
export type FaultDetails = Readonly<Record<string, JsonValue>>;

/** What JSON can hold. */
export type JsonValue =
  | string
  | number
  | boolean
  | null
  | readonly JsonValue[]
  | { readonly [key: string]: JsonValue };

/** What may be said beside a fault's code and message. */
export interface FaultOptions {
  /** The next command to run, or the setting to change. */
  readonly hint?: string;
  /** Overrides the table's advice on repeating. */
  readonly retryable?: boolean;
  /** Facts for programs. */
  readonly details?: FaultDetails;
  /** What led here; for the log only, never sent. */
  readonly cause?: unknown;
}

/**
 * The one error class, on both sides and on the wire. `code` is what programs branch on; `message` says what happened
 * to which thing and is safe to show the other side; `cause` never leaves the process.
 */
export class Fault extends Error {
  override readonly name = "Fault";
  readonly code: FaultCode;
  readonly hint: string | undefined;
  readonly retryable: boolean;
  readonly details: FaultDetails;

  constructor(code: FaultCode, message: string, options: FaultOptions = {}) {
    super(message, "cause" in options ? { cause: options.cause } : undefined);
    this.code = code;
    this.hint = options.hint;
    this.retryable = options.retryable ?? faultRow(code).retryable;
    this.details = options.details ?? {};
  }

  /** The same fault with more details (those given win); keeps stack and cause of this one as its cause. */
  with(more: { readonly details?: FaultDetails; readonly hint?: string }): Fault {
    const hint = more.hint ?? this.hint;
    return new Fault(this.code, this.message, {
      ...(hint === undefined ? {} : { hint }),
      retryable: this.retryable,
      details: { ...this.details, ...more.details },
      cause: this,
    });
  }
}

/** Whether `error` is a Fault, of `code` when one is given. Looks at the error itself, not at its causes. */
export function isFault(error: unknown, code?: FaultCode): error is Fault {
  return error instanceof Fault && (code === undefined || error.code === code);
}

/** The first Fault in the chain of causes (at most 16 links), of `code` when one is given. */
export function findFault(error: unknown, code?: FaultCode): Fault | undefined {
  let at: unknown = error;
  for (let depth = 0; depth < 16 && at instanceof Error; depth += 1) {
    if (isFault(at, code)) return at;
    at = at.cause;
  }
  return undefined;
}

/** Whether a workspace could not be reached, however deeply the fault is wrapped; never judged by text. */
export function isWorkspaceUnavailable(error: unknown): boolean {
  return findFault(error, "WORKSPACE_ACCESS_UNAVAILABLE") !== undefined;
}

/** The object that stands in `--json` output and over MCP: code, message, hint, retryable, details. */
export interface FaultJson {
  readonly code: FaultCode;
  readonly message: string;
  readonly hint?: string;
  readonly retryable: boolean;
  readonly details: FaultDetails;
}

/** The JSON form of `fault`. */
export function toFaultJson(fault: Fault): FaultJson {
  return {
    code: fault.code,
    message: fault.message,
    ...(fault.hint === undefined ? {} : { hint: fault.hint }),
    retryable: fault.retryable,
    details: fault.details,
  };
}
