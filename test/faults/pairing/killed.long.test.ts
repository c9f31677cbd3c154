import { fork, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { createServer } from "node:net";
import { fileURLToPath } from "node:url";
import { expect } from "vitest";
import { findIdentity } from "../../../node-agent/pairing/identity.ts";
import { joinAs, startPairingGateway, type PairingGateway } from "../../scenarios/pairing/pairing-gateway.ts";
import { faultOf } from "../../support/fault-of.ts";
import { proves } from "../../support/proves.ts";
import { makeTempFolder, type TempFolder } from "../../support/temp-folder.ts";

function start(fixture: string, args: readonly string[]): ChildProcess {
  const path = fileURLToPath(new URL(`../../fixtures/pairing/${fixture}`, import.meta.url));
  return fork(path, [...args], { execArgv: [], stdio: ["ignore", "ignore", "inherit", "ipc"] });
}

/** Runs a join that dies at a step; whether it died. */
async function joinAndDie(code: string, home: TempFolder, dieAt: number): Promise<boolean> {
  const child = start("join-and-die.ts", [code, home.join("node"), String(dieAt)]);
  const [status, signal] = (await once(child, "exit")) as [number | null, string | null];
  if (signal === "SIGKILL") return true;
  expect(status).toBe(0);
  return false;
}

proves(
  "pairing.identity-written-whole",
  "a join that is killed at any write leaves no identity or a whole one, and its code is good for the next try",
  { timeout: 300_000 },
  async () => {
    await using gateway = await startPairingGateway();
    const outcomes = new Set<string>();
    let next = 1;
    let over = false;
    const worker = async (): Promise<void> => {
      while (!over) {
        const dieAt = next++;
        const { died, found } = await joinTwice(gateway, dieAt);
        over ||= !died;
        outcomes.add(found);
      }
    };
    await Promise.all([worker(), worker(), worker()]);
    expect(outcomes).toEqual(new Set(["none", "whole"]));
  },
);

/** A join that dies at a step, and one more when it left nothing; what was found in between. */
async function joinTwice(
  gateway: PairingGateway,
  dieAt: number,
): Promise<{ readonly died: boolean; readonly found: "none" | "whole" }> {
  await using home = await makeTempFolder();
  const alias = `box-${dieAt}`;
  const { code } = await gateway.pairing.invite({ alias });
  const died = await joinAndDie(code, home, dieAt);
  // Reads all of it: a part of an identity would be a fault.
  const found = await findIdentity(home.join("node"));
  if (!found) await joinAs(code, home);
  const identity = await findIdentity(home.join("node"));
  expect(identity?.alias).toBe(alias);
  const files = ["cert.pem", "gateway.json", "key.pem"].map((name) => `node/identity/${name}`);
  expect(await home.entries()).toEqual(["node", "node/identity", ...files]);
  const nodes = await gateway.pairing.nodes.list();
  expect(nodes.filter((node) => node.alias === alias)).toMatchObject([{ id: identity?.nodeId }]);
  const codes = gateway.store.db.selectFrom("join_codes").select("uses_left").where("alias", "=", alias);
  expect(await codes.execute()).toEqual([{ uses_left: 0 }]);
  return { died, found: found ? "whole" : "none" };
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const bound = server.address();
  server.close();
  await once(server, "close");
  return typeof bound === "object" && bound ? bound.port : 0;
}

proves(
  "pairing.enrolment-one-transaction",
  "a gateway killed at any step of an enrolment has no node and an unused code, or one node that gets its certificate",
  { timeout: 300_000 },
  async () => {
    await using place = await makeTempFolder();
    const dir = place.join("gateway");
    const listen = `127.0.0.1:${await freePort()}`;
    const outcomes = new Set<string>();
    let died = true;
    for (let dieAt = 1; died; dieAt += 1) {
      await using home = await makeTempFolder();
      const invite = async (): Promise<string> => {
        await using gateway = await startPairingGateway({ dir, listen });
        return (await gateway.pairing.invite({ alias: `box-${dieAt}` })).code;
      };
      const code = await invite();
      died = await enrolWithDyingGateway({ dir, listen, dieAt, code, home });
      await using gateway = await startPairingGateway({ dir, listen });
      const node = (await gateway.pairing.nodes.list()).find(({ alias }) => alias === `box-${dieAt}`);
      const left = (await gateway.usesLeft()).at(-1);
      expect([node !== undefined, left]).toEqual(node ? [true, 0] : [false, 1]);
      outcomes.add(node ? "whole" : "none");
      const { identity } = died
        ? await joinAs(code, home)
        : { identity: await findIdentity(home.join("node")) };
      const after = await gateway.pairing.nodes.list();
      expect(after).toHaveLength(dieAt);
      expect(after.find(({ alias }) => alias === `box-${dieAt}`)?.id).toBe(node?.id ?? identity?.nodeId);
      expect(identity?.alias).toBe(`box-${dieAt}`);
      expect((await gateway.usesLeft()).at(-1)).toBe(0);
    }
    expect(outcomes).toEqual(new Set(["none", "whole"]));
  },
);

interface DyingEnrolment {
  readonly dir: string;
  readonly listen: string;
  readonly dieAt: number;
  readonly code: string;
  readonly home: TempFolder;
}

/** Enrols at a gateway that dies at a step; whether it died. */
async function enrolWithDyingGateway(enrolment: DyingEnrolment): Promise<boolean> {
  const child = start("gateway-that-dies.ts", [enrolment.dir, enrolment.listen]);
  const ended = once(child, "exit") as Promise<[number | null, string | null]>;
  try {
    expect(await once(child, "message")).toEqual(["ready", undefined]);
    child.send({ dieAt: enrolment.dieAt });
    expect(await once(child, "message")).toEqual(["armed", undefined]);
    const joined = joinAs(enrolment.code, enrolment.home);
    const isOver = await Promise.race([
      joined.then(
        () => false,
        () => true,
      ),
      ended.then(() => true),
    ]);
    if (!isOver) return false;
    expect(await faultOf(joined)).toMatchObject({ code: "GATEWAY_UNREACHABLE" });
    expect((await ended)[1]).toBe("SIGKILL");
    return true;
  } finally {
    child.kill("SIGKILL");
    await ended;
  }
}
