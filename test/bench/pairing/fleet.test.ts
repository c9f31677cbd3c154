import { expect } from "vitest";
import { proves } from "../../support/proves.ts";
import { startGateway } from "../../support/start-gateway.ts";
import { median, printReport, ratio, saveReports, type Report, type Row } from "../support/report.ts";
import { codeFor, openAdmin, startMachines, type AdminClient } from "./machines.ts";

const timeoutMs = 600_000;
const rounds = 7;

function toRow(name: string, times: readonly number[]): Row {
  return { name, medianMs: median(times), allMs: times.map(Math.round), cpuSeconds: 0, peaks: {} };
}

/** Revokes one node after the other; how long each took, in milliseconds. */
async function revokeAll({ admin }: AdminClient, ids: readonly string[]): Promise<readonly number[]> {
  const times: number[] = [];
  for (const node of ids) {
    const began = performance.now();
    await admin.revokeNode({ node });
    times.push(performance.now() - began);
  }
  return times;
}

proves(
  "pairing.revoke-time-flat",
  "revoking one node takes as long in a large fleet as in a small one",
  { timeout: timeoutMs },
  async () => {
    await using gateway = await startGateway();
    await using client = await openAdmin(gateway);
    await using machines = startMachines();
    const code = await codeFor(gateway, 2_000);
    const few = await machines.join(code, 10 + rounds, 8);
    const small = toRow("10 linked", await revokeAll(client, few.slice(0, rounds)));
    const many = await machines.join(code, 990 + rounds, 16);
    const { nodes } = await client.admin.listNodes({ state: "online" });
    expect(nodes).toHaveLength(1_000 + rounds);
    const large = toRow("1,000 linked", await revokeAll(client, many.slice(0, rounds)));
    const title = `revoke one node, median of ${rounds}`;
    const report: Report = { title, rows: [small, large], ours: [small.name] };
    printReport(report);
    await saveReports("pairing-revoke", [report]);
    expect(ratio(report, small.name, large.name)).toBeLessThanOrEqual(4);
  },
);

proves(
  "pairing.enrol-burst",
  "200 machines that join at once with one code are online within ten times the time of 20",
  { timeout: timeoutMs },
  async () => {
    await using gateway = await startGateway();
    await using machines = startMachines();
    // What is loaded at the first use is paid for by nobody.
    await machines.join(await codeFor(gateway, 2), 2);
    const burst = async (count: number): Promise<Row> => {
      const code = await codeFor(gateway, count);
      const began = performance.now();
      expect(await machines.join(code, count)).toHaveLength(count);
      return toRow(`${count} at once`, [performance.now() - began]);
    };
    const small = await burst(20);
    const large = await burst(200);
    const report: Report = { title: "join and be online", rows: [small, large], ours: [small.name] };
    printReport(report);
    await saveReports("pairing-burst", [report]);
    expect(ratio(report, small.name, large.name)).toBeLessThanOrEqual(10);
  },
);
