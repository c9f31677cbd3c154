import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { expect } from "vitest";
import { listOf, memberOf } from "./cli-fault.ts";
import type { CliResult } from "./run-cli.ts";
import type { TestGateway } from "./start-gateway.ts";

/** A file of a node that a person allowed to be read, once for all times. */
export interface ReadGrant {
  /** As the command line lists it. */
  readonly shown: unknown;
  /** Whether the same file, at this place, is read without a question. */
  readsAt(place: string): Promise<boolean>;
  /** All standing grants, as the command line lists them. */
  list(): Promise<readonly unknown[]>;
}

/** Lets a gateway ask for every read, and a person allow that of one file for good. */
export async function grantRead(gateway: TestGateway, place: string): Promise<ReadGrant> {
  await writeFile(join(gateway.home, "gateway/policy.yaml"), "files:\n  asks: { read: [], ask: on-miss }\n");
  const read = (at: string): Promise<CliResult> => gateway.cli(["files", "cat", at, "--no-wait", "--json"]);
  const asked = async (): Promise<unknown> => {
    const result = await read(place);
    return result.exitCode === 0 ? undefined : memberOf(memberOf(result.json, "error"), "details");
  };
  // The gateway follows its policy file.
  let approvalId: unknown;
  await expect
    .poll(async () => (approvalId = memberOf(await asked(), "approvalId")), { timeout: 30_000 })
    .toBeTypeOf("string");
  expect((await gateway.cli(["approvals", "allow", String(approvalId), "--always"])).exitCode).toBe(0);
  expect((await read(place)).exitCode).toBe(0);
  const list = async (): Promise<readonly unknown[]> =>
    listOf(await gateway.json(["approvals", "grants", "ls"]), "grants");
  const [shown, ...more] = await list();
  expect([shown === undefined, more.length]).toEqual([false, 0]);
  return {
    shown,
    list,
    readsAt: async (at) => {
      const result = await read(at);
      if (result.exitCode === 0) return true;
      expect(memberOf(memberOf(result.json, "error"), "code")).toBe("APPROVAL_REQUIRED");
      return false;
    },
  };
}
