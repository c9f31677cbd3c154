import { connect } from "node:net";
import { parseAddress } from "../../shared/identity/address.ts";
import type { Clock } from "../../shared/lifetime/clock.ts";

/** Where is looked, and how. */
export interface ListeningOptions {
  /** Gateways, `host:port`. */
  readonly addresses: readonly string[];
  readonly clock: Clock;
  /** A number in [0, 1). */
  readonly random: () => number;
  /** Ends the looking; its reason is thrown. */
  readonly signal: AbortSignal;
}

/** How often is looked, in milliseconds. */
const everyMs = 2000;

/** How long one look may take, in milliseconds. */
const lookMs = 1000;

/**
 * Resolves once one of the addresses takes connections. A machine that refuses them because nobody listens pays next to
 * nothing for a look, so a node need not wait as long as before a dial; and since every node looks at a moment of its
 * own in each two seconds, those of a gateway that is back come evenly.
 */
export async function untilListening(options: ListeningOptions): Promise<void> {
  const { addresses, clock, random, signal } = options;
  await clock.sleep(random() * everyMs, { signal });
  for (;;) {
    for (const address of addresses) if (await isListening(address, options)) return;
    await clock.sleep(everyMs, { signal });
  }
}

async function isListening(address: string, { clock, signal }: ListeningOptions): Promise<boolean> {
  signal.throwIfAborted();
  const socket = connect(parseAddress(address));
  const stop = clock.after(lookMs, () => void socket.destroy());
  const onAbort = (): void => void socket.destroy();
  signal.addEventListener("abort", onAbort, { once: true });
  try {
    return await new Promise<boolean>((resolve) => {
      socket.once("connect", () => resolve(true));
      // What is wrong with an address shows at the dial.
      socket.on("error", () => resolve(false));
      socket.once("close", () => resolve(false));
    });
  } finally {
    stop();
    signal.removeEventListener("abort", onAbort);
    // A reset: whoever took it sees at once that nobody wants to speak.
    socket.resetAndDestroy();
  }
}
