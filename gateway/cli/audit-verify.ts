import { existsSync } from "node:fs";
import path from "node:path";
import { type Fault, isFault } from "../../shared/fault/fault.ts";
import { Audit } from "../../shared/gen/fairlead/v1/audit_pb.ts";
import type { CommandModule } from "../../shared/terminal/command.ts";
import type { Runtime } from "../../shared/terminal/runtime.ts";
import { chooseGateway } from "./choose-gateway.ts";
import { openChosenGateway } from "./open-gateway.ts";

/** `audit verify`: asks the gateway, or reads its files when it does not run. */
export const auditVerify: CommandModule = {
  words: "audit verify",
  summary: "prove that no record was altered or removed, also while the gateway does not run",
  example: "fairlead audit verify",
  run: async (_, runtime) => {
    const { first, last, records, files } = await prove(runtime);
    await runtime.output.result({ ok: true, first, last, records, files }, () => [
      `ok: records ${first} to ${last}, ${records} in all, are as they were written`,
    ]);
  },
};

interface Proof {
  readonly first: number;
  readonly last: number;
  readonly records: number;
  readonly files: number;
}

async function prove(runtime: Runtime): Promise<Proof> {
  const chosen = await chooseGateway(runtime);
  try {
    await using gateway = await openChosenGateway(chosen, runtime);
    const { first, last, records, files } = await gateway.client(Audit).verify({}, gateway.call());
    return { first: Number(first), last: Number(last), records: Number(records), files };
  } catch (error) {
    // Of a gateway elsewhere the files are elsewhere too.
    if (!isFault(error, "GATEWAY_UNREACHABLE") || chosen.chosenBy !== "local_socket") throw error;
    return await proveOnFiles(runtime, error);
  }
}

/** With the home held, so that no gateway starts meanwhile; whatever keeps it from that, the gateway was not reached. */
async function proveOnFiles({ home, clock, signal }: Runtime, unreached: Fault): Promise<Proof> {
  const dir = home.gatewayDir;
  if (!existsSync(path.join(dir, "state.db"))) throw unreached;
  const { openStore } = await import("../store/store.ts");
  const { openSegments } = await import("../audit/segments.ts");
  const { verifyAudit } = await import("../audit/verify.ts");
  try {
    await using store = await openStore({ dir, clock, program: "fairlead audit verify" });
    const segments = await openSegments(path.join(dir, "audit"));
    return await verifyAudit({ db: store.db, segments, signal });
  } catch (error) {
    if (isFault(error, "CONFLICT")) throw unreached;
    throw error;
  }
}
