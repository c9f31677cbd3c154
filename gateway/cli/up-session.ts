import { Fault, isFault } from "../../shared/fault/fault.ts";
import { Admin } from "../../shared/gen/fairlead/v1/admin_pb.ts";
import { type Session, Sessions } from "../../shared/gen/fairlead/v1/sessions_pb.ts";
import type { Runtime } from "../../shared/terminal/runtime.ts";
import type { OpenGateway } from "./open-gateway.ts";
import { readUpState, writeUpState } from "./up-state.ts";

/** The session that `up` offers to MCP clients, with the token that opens it. */
export interface UpSession {
  readonly id: string;
  readonly token: string;
}

const workspace = "local:/main";

/** The session of the last start when it is still open and its token still there, else a new one with a new token. */
export async function openUpSession(runtime: Runtime, gateway: OpenGateway): Promise<UpSession> {
  const kept = await readUpState(runtime.home);
  const { session, token } = kept;
  if (session !== undefined && token !== undefined && (await isUsable(gateway, session))) {
    return { id: session, token };
  }
  const opened = await gateway.client(Sessions).open({ agent: "operator", workspace }, gateway.call());
  if (!opened.session) throw new Fault("INTERNAL", "the gateway answered without the session");
  const { id } = opened.session;
  const made = await gateway.client(Admin).createToken({ session: id }, gateway.call());
  await writeUpState(runtime.home, { session: id, token: made.text });
  return { id, token: made.text };
}

async function isUsable(gateway: OpenGateway, id: string): Promise<boolean> {
  const session = await findSession(gateway, id);
  if (!session || session.state === "closed" || session.workspace !== workspace) return false;
  const { tokens } = await gateway.client(Admin).listTokens({}, gateway.call());
  return tokens.some((token) => token.session === id);
}

async function findSession(gateway: OpenGateway, id: string): Promise<Session | undefined> {
  try {
    return (await gateway.client(Sessions).get({ session: id }, gateway.call())).session;
  } catch (error) {
    if (isFault(error, "NOT_FOUND")) return undefined;
    throw error;
  }
}
