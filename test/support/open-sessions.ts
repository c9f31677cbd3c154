import { join } from "node:path";
import { findAdminSocket } from "../../gateway/cli/find-admin-socket.ts";
import { Sessions } from "../../shared/gen/fairlead/v1/sessions_pb.ts";
import { openGrpcClient } from "../../shared/rpc/grpc-client.ts";
import type { Client } from "../../shared/rpc/service.ts";

/** The sessions of a running gateway over its local socket: for tests that ask often. */
export interface TestSessions extends AsyncDisposable {
  readonly sessions: Client<typeof Sessions>;
}

/** Connects to the gateway of this home, as its own command line does. The caller disposes it. */
export async function openTestSessions(gateway: { readonly home: string }): Promise<TestSessions> {
  const socket = await findAdminSocket(join(gateway.home, "gateway"));
  const connection = openGrpcClient({
    address: `unix:${socket}`,
    security: "insecure",
    connectTimeoutMs: 5000,
  });
  return {
    sessions: connection.client(Sessions),
    [Symbol.asyncDispose]: () => connection[Symbol.asyncDispose](),
  };
}

/** The states and names of skills, as `name` or `name (state)`, sorted by the gateway. */
export async function listSkillNames(
  sessions: Client<typeof Sessions>,
  session = "",
): Promise<readonly string[]> {
  const { skills } = await sessions.listSkills({ session });
  return skills.map(({ name, state }) => (state === "eligible" ? name : `${name} (${state})`));
}
