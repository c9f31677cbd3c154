import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { expect } from "vitest";
import { Files } from "../../../shared/gen/fairlead/v1/files_pb.ts";
import { echoServices } from "../../contract/rpc/echo-services.ts";
import { openLinkGateway, openLinkNode, whenLinked } from "../../contract/rpc/open-link.ts";
import { ManualClock } from "../../support/manual-clock.ts";
import { proves } from "../../support/proves.ts";

const program = fileURLToPath(new URL("../../fixtures/programs/strangers.mjs", import.meta.url));
const strangerCount = 2000;

interface Strangers extends AsyncDisposable {
  dialled: number;
  open: number;
}

/** Strangers at a port, in a process of their own. */
function startStrangers(port: number): Strangers {
  const child = spawn(process.execPath, [program, String(port), String(strangerCount)], {
    stdio: ["pipe", "pipe", "inherit"],
  });
  const ended = new Promise<void>((resolve) => void child.once("close", () => resolve()));
  const strangers: Strangers = {
    dialled: 0,
    open: 0,
    [Symbol.asyncDispose]: async () => {
      child.stdin.end();
      await ended;
    },
  };
  createInterface({ input: child.stdout }).on("line", (line) => {
    const told: unknown = JSON.parse(line);
    Object.assign(strangers, told);
  });
  return strangers;
}

function median(values: readonly number[]): number {
  return values.toSorted((one, other) => one - other)[Math.floor(values.length / 2)] ?? 0;
}

proves(
  "link.strangers-at-the-port",
  "2,000 strangers who say nothing of use are closed within 20 s and slow no linked node",
  { timeout: 120_000 },
  async () => {
    const clock = new ManualClock();
    await using gateway = await openLinkGateway({ serverClock: clock });
    await using _node = await openLinkNode(gateway, { services: echoServices() });
    const files = (await whenLinked(gateway)).client(Files);
    const timeOfCalls = async (until: (count: number) => boolean): Promise<number> => {
      const tookMs: number[] = [];
      while (!until(tookMs.length)) {
        const begunAt = performance.now();
        await files.stat({ path: "linked" });
        tookMs.push(performance.now() - begunAt);
      }
      return median(tookMs);
    };
    await timeOfCalls((count) => count >= 300);
    const usualMs = await timeOfCalls((count) => count >= 500);

    await using strangers = startStrangers(gateway.server.port);
    const arrivingMs = await timeOfCalls((count) => count >= 300 && strangers.dialled >= strangerCount);
    // Random bytes are closed by the handshake; the others wait.
    expect(strangers.open).toBeGreaterThan(strangerCount / 2);
    const waitingMs = await timeOfCalls((count) => count >= 500);
    expect(gateway.server.connectionCount).toBeGreaterThan(strangerCount / 2);
    // Nobody is closed early, and nobody stays longer than the twenty seconds of connect, handshake and hello.
    const openBefore = strangers.open;
    await clock.advance(19_000);
    expect(strangers.open).toBe(openBefore);
    await clock.advance(1_000);
    await expect.poll(() => strangers.open).toBe(0);
    await expect.poll(() => gateway.server.connectionCount).toBe(1);
    expect(arrivingMs).toBeLessThan(5 * usualMs);
    expect(waitingMs).toBeLessThan(5 * usualMs);
    expect((await files.stat({ path: "after" })).entry?.path).toBe("after");
  },
);
