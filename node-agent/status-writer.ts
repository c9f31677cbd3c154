import { type Fault, isFault } from "../shared/fault/fault.ts";
import { type NodeStatus, type RenewalProblem, writeNodeStatus } from "./config/status-file.ts";
import type { LinkStatus } from "./link/link-status.ts";

/** A link that a person has to mend is offline, also once its agent has stopped. */
function stateOf({ state }: LinkStatus, fault: Fault | undefined): NodeStatus["state"] {
  const isOver = isFault(fault) && !fault.retryable && fault.code !== "CANCELLED";
  if (isOver && (state === "waiting" || state === "stopped")) return "offline";
  return state === "waiting" ? "reconnecting" : state;
}

/** What signed the certificate is gone: the gateway answers, and takes it no more. */
const cutOff = "foreign_certificate";

/** Writes `status.json`, one state after the other; the newest one is what stands there in the end. */
export class StatusWriter {
  readonly #dir: string;
  readonly #version: string;
  #problem = "";
  #installed = "";
  #renewal: RenewalProblem | undefined;
  #last: NodeStatus | undefined;
  #turn: Promise<void> = Promise.resolve();

  constructor(dir: string, version: string) {
    this.#dir = dir;
    this.#version = version;
  }

  /** Shows where the link stands, with the fault of the last dial. */
  async write(link: LinkStatus, fault: Fault | undefined): Promise<void> {
    if (link.state === "stopped" && this.#last?.reason === cutOff) {
      // That only a code helps holds also while no agent runs.
      this.#last = { ...this.#last, state: "offline", nextAttemptMs: 0 };
      return await this.#flush();
    }
    this.#last = {
      state: stateOf(link, fault),
      sinceMs: link.sinceMs,
      reason: link.reason,
      code: fault?.code ?? "",
      message: fault?.message ?? "",
      details: { ...fault?.details },
      retryable: fault?.retryable ?? true,
      nextStep: link.reason === cutOff ? "fairlead node join CODE" : link.nextStep,
      attempts: link.attempts,
      lastAttemptMs: link.lastAttemptMs,
      nextAttemptMs: link.nextAttemptMs,
      address: link.address,
      version: this.#version,
      configProblem: this.#problem,
      installedVersion: this.#installed,
      renewal: this.#renewal,
    };
    await this.#flush();
  }

  /** Shows that the certificate cannot be renewed; undefined: that it can. */
  setRenewal(renewal: RenewalProblem | undefined): void {
    this.#renewal = renewal;
    if (this.#last) this.#last = { ...this.#last, renewal };
    void this.#flush().catch(() => undefined);
  }

  /** Shows which version is installed when another one runs; empty: the same. */
  setInstalled(version: string): void {
    this.#installed = version;
    if (this.#last) this.#last = { ...this.#last, installedVersion: version };
    void this.#flush().catch(() => undefined);
  }

  /** Shows why the configuration is not followed; empty: that it is. */
  setProblem(message: string): void {
    this.#problem = message;
    if (this.#last) this.#last = { ...this.#last, configProblem: message };
    void this.#flush().catch(() => undefined);
  }

  #flush(): Promise<void> {
    const mine = this.#turn.then(async () => {
      if (this.#last) await writeNodeStatus(this.#dir, this.#last);
    });
    this.#turn = mine.catch(() => undefined);
    return mine;
  }
}
