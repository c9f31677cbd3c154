import { findAdminSocket } from "../../../gateway/cli/find-admin-socket.ts";
import { createPublicationBoard } from "../../../node-agent/link/publications.ts";
import { startLink } from "../../../node-agent/link/start-link.ts";
import { dialTls } from "../../../node-agent/pairing/tls.ts";
import { digestOf } from "../../../shared/content/digest.ts";
import { Admin } from "../../../shared/gen/fairlead/v1/admin_pb.ts";
import { PublicationKind } from "../../../shared/gen/fairlead/v1/link_pb.ts";
import { Tools } from "../../../shared/gen/fairlead/v1/tools_pb.ts";
import { openGrpcClient } from "../../../shared/rpc/grpc-client.ts";
import { type Client, serve } from "../../../shared/rpc/service.ts";
import { joinAs } from "../../scenarios/pairing/pairing-gateway.ts";
import type { TestGateway } from "../../support/start-gateway.ts";
import { inviteCode } from "../../support/start-node.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";

/** The administrators' service of a gateway, without starting a program for each call. */
export interface AdminClient extends AsyncDisposable {
  readonly admin: Client<typeof Admin>;
}

/** Opens it over the gateway's local socket; the caller disposes it. */
export async function openAdmin(gateway: TestGateway): Promise<AdminClient> {
  const path = await findAdminSocket(`${gateway.home}/gateway`);
  const client = openGrpcClient({ address: `unix:${path}`, security: "insecure" });
  return { admin: client.client(Admin), [Symbol.asyncDispose]: () => client[Symbol.asyncDispose]() };
}

const noTools = { epoch: 1n, digest: digestOf("no tools") };

/** Machines of this process with identity and link of the real agent, which publish an empty list of tools. */
export interface Machines extends AsyncDisposable {
  /** Lets so many more join with one code for all, at most `atOnce` at the same time; resolves when all are online. */
  join(code: string, count: number, atOnce?: number): Promise<readonly string[]>;
}

/** A code for so many machines. */
export function codeFor(gateway: TestGateway, count: number): Promise<string> {
  return inviteCode(gateway, ["--uses", String(count), "--ttl", "1h"]);
}

/** Begins without any; disposing ends all links and removes all homes. */
export function startMachines(): Machines {
  const stack = new AsyncDisposableStack();
  const joinOne = async (code: string): Promise<string> => {
    const home = stack.use(await makeTempFolder());
    const { identity } = await joinAs(code, home);
    const publications = createPublicationBoard();
    publications.publish({ ...noTools, publication: PublicationKind.TOOLS });
    const link = stack.use(
      startLink({
        addresses: identity.addresses,
        loadTls: () => dialTls(identity),
        services: [serve(Tools, { listPublished: async () => ({ ...noTools, tools: [] }) })],
        publications,
      }),
    );
    const signal = AbortSignal.timeout(300_000);
    for await (const { state } of link.changes({ signal })) if (state === "online") return identity.nodeId;
    throw new Error("a link ended before it was online");
  };
  return {
    join: async (code, count, atOnce = count) => {
      const ids: string[] = [];
      let left = count;
      const worker = async (): Promise<void> => {
        while (left > 0) {
          left -= 1;
          ids.push(await joinOne(code));
        }
      };
      await Promise.all(Array.from({ length: Math.min(count, atOnce) }, worker));
      return ids;
    },
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  };
}
