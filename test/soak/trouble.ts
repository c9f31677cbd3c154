import { systemClock } from "../../shared/lifetime/clock.ts";
import type { FaultProxy } from "../support/fault-proxy.ts";
import type { TestGateway } from "../support/start-gateway.ts";
import type { TestNode } from "../support/start-node.ts";

/** What trouble is made for. */
export interface Troubled {
  readonly gateway: TestGateway;
  readonly node: TestNode;
  readonly proxy: FaultProxy;
}

/** One kind of trouble; it is over when the promise resolves. */
export interface Trouble {
  readonly name: string;
  /** How often it comes, beside the others. */
  readonly weight: number;
  readonly make: (troubled: Troubled) => Promise<void>;
}

/** For so long, in milliseconds. */
async function wait(leastMs: number, mostMs: number): Promise<void> {
  await systemClock.sleep(leastMs + Math.random() * (mostMs - leastMs));
}

/** Everything that happens to a link in the field. */
export const troubles: readonly Trouble[] = [
  { name: "cut", weight: 6, make: async ({ proxy }) => proxy.cut() },
  { name: "reset", weight: 3, make: async ({ proxy }) => proxy.cut({ reset: true }) },
  { name: "half-close", weight: 2, make: async ({ proxy }) => proxy.halfClose("up") },
  {
    name: "stall",
    weight: 4,
    make: async ({ proxy }) => {
      proxy.stall();
      await wait(500, 4000);
      proxy.resume();
    },
  },
  {
    name: "slow and in pieces",
    weight: 2,
    make: async ({ proxy }) => {
      proxy.chop(200);
      proxy.delay(30);
      await wait(1000, 3000);
      proxy.mend();
    },
  },
  {
    name: "refused",
    weight: 2,
    make: async ({ proxy }) => {
      proxy.refuse();
      proxy.cut();
      await wait(500, 3000);
      await proxy.accept();
    },
  },
  {
    name: "frozen node",
    weight: 2,
    make: async ({ node }) => {
      node.signal("SIGSTOP");
      await wait(500, 3000);
      node.signal("SIGCONT");
    },
  },
  {
    name: "killed node",
    weight: 1,
    make: async ({ node }) => {
      await node.kill("SIGKILL");
      await wait(0, 1000);
      await node.restart({ waitForReady: false });
    },
  },
  {
    name: "killed gateway",
    weight: 1,
    make: async ({ gateway }) => {
      await gateway.kill("SIGKILL");
      await wait(0, 1000);
      await gateway.restart();
    },
  },
];

/** One of them, by its weight. */
export function pickTrouble(): Trouble {
  const all = troubles.reduce((sum, { weight }) => sum + weight, 0);
  let at = Math.random() * all;
  for (const trouble of troubles) {
    at -= trouble.weight;
    if (at < 0) return trouble;
  }
  throw new Error("there is no trouble to make");
}
