import { safeText } from "../log/safe-text.ts";
import type { Output } from "./output.ts";

/** A progress bar on standard error; silent when that is no terminal. Disposing takes it away. */
export interface Progress extends AsyncDisposable {
  /** So many more bytes went. */
  advance(bytes: number): void;
  /** The total, once it is known, in bytes. */
  total(bytes: number): void;
}

/** What a bar shows. */
export interface ProgressOptions {
  /** What travels; cut to 40 characters. */
  readonly label: string;
  /** Bytes in all, when known. */
  readonly totalBytes?: number;
}

/** Starts a bar. The caller disposes it before it prints. */
export async function startProgress(
  output: Pick<Output, "isErrorTerminal">,
  options: ProgressOptions,
): Promise<Progress> {
  if (!output.isErrorTerminal) {
    return {
      advance: () => undefined,
      total: () => undefined,
      [Symbol.asyncDispose]: () => Promise.resolve(),
    };
  }
  const { SingleBar, Presets } = await import("cli-progress");
  const bar = new SingleBar(
    {
      stream: process.stderr,
      clearOnComplete: true,
      hideCursor: true,
      noTTYOutput: false,
      fps: 8,
      format: `${safeText(options.label, 40).replaceAll("{", "(")} {bar} {percentage}% {value}/{total} MiB`,
      formatValue: (value, _, kind) =>
        kind === "value" || kind === "total" ? (value / 1_048_576).toFixed(1) : String(value),
    },
    Presets.shades_classic,
  );
  let done = 0;
  let totalBytes = options.totalBytes ?? 0;
  bar.start(totalBytes, 0);
  return {
    advance: (bytes) => {
      done += bytes;
      // A total that is not known yet grows with what came, so that the bar never passes its end.
      if (done > totalBytes) bar.setTotal((totalBytes = done));
      bar.update(done);
    },
    total: (bytes) => bar.setTotal((totalBytes = Math.max(bytes, done))),
    [Symbol.asyncDispose]: () => {
      bar.stop();
      return Promise.resolve();
    },
  };
}
