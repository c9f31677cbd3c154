import { Fault } from "../../shared/fault/fault.ts";
import { Admin, type AdminGetCallerResponse } from "../../shared/gen/fairlead/v1/admin_pb.ts";
import { judgeGateway } from "../../shared/identity/gateway-peer.ts";
import { parsePin, type Pin } from "../../shared/identity/pin.ts";
import { openGrpcClient } from "../../shared/rpc/grpc-client.ts";
import { askSecret, confirm } from "../../shared/terminal/ask.ts";
import type { CommandInput } from "../../shared/terminal/command-input.ts";
import type { CommandModule } from "../../shared/terminal/command.ts";
import type { Runtime } from "../../shared/terminal/runtime.ts";
import { parseGatewayUrl } from "./choose-gateway.ts";
import { writeLogin } from "./login-file.ts";
import { openRemoteGateway } from "./open-gateway.ts";
import { callerToJson } from "./whoami.ts";

/** `login`: where commands of this home go when it has no gateway of its own. */
export const commands: readonly CommandModule[] = [
  {
    words: "login",
    summary: "administer a gateway elsewhere; its token comes from a prompt or standard input",
    example: "fairlead login https://gateway.example:7443 --pin sha256:… < token.txt",
    args: [{ name: "<url>", text: "https://HOST:PORT, the address that nodes connect to" }],
    options: [{ flags: "--pin <pin>", text: "the pin that the gateway prints; FAIRLEAD_PIN is as good" }],
    run: async (input, runtime) => {
      const address = parseGatewayUrl(input.argument("url"), "url");
      const pin = await choosePin(input, runtime, address);
      const login = { address, pin, token: await readToken(runtime, address) };
      const caller = await tryLogin(login, runtime);
      await writeLogin(runtime.home, login);
      const json = { gateway: `https://${address}`, pin, ...callerToJson(caller) };
      await runtime.output.result(json, () => [
        `logged in at https://${address} as ${caller.user}, ${caller.role}`,
      ]);
      if (process.platform !== "win32" && runtime.output.isTerminal)
        runtime.output.note("The token is kept in this home, for you alone; fairlead logout removes it.");
    },
  },
];

async function tryLogin(
  login: { readonly address: string; readonly pin: Pin; readonly token: string },
  runtime: Runtime,
): Promise<AdminGetCallerResponse> {
  await using gateway = openRemoteGateway({ ...login, chosenBy: "login" }, runtime);
  return await gateway.client(Admin).getCaller({}, gateway.call());
}

/** The pin that was given; else, at a terminal, the one that the gateway shows and a person has compared. */
async function choosePin(input: CommandInput, runtime: Runtime, address: string): Promise<Pin> {
  const given = input.text("pin");
  if (given !== undefined) return parsePin(given);
  if (runtime.environment.pin !== undefined) return parsePin(runtime.environment.pin, "FAIRLEAD_PIN");
  const hint = "give --pin; fairlead gateway status prints it on the gateway's machine";
  if (!runtime.input.isTerminal || !runtime.output.isErrorTerminal) {
    throw new Fault("INVALID_ARGUMENT", `the pin of the gateway ${address} is not known`, {
      hint,
      details: { field: "pin" },
    });
  }
  const shown = await fetchPin(address, runtime);
  runtime.output.note(`The gateway at ${address} shows the pin`);
  runtime.output.note(`  ${shown}`);
  if (await confirm(runtime, "Is it the one that fairlead gateway status prints there?")) return shown;
  throw new Fault("CANCELLED", "the pin was not confirmed; nothing was sent", { hint });
}

/** The pin of whoever answers there. Nothing but the handshake is sent. */
async function fetchPin(address: string, { clock, signal }: Runtime): Promise<Pin> {
  let shown: Pin | undefined;
  await using connection = openGrpcClient({
    address,
    security: () => ({
      verifyPeer: (chain) => {
        const fault =
          judgeGateway({ pins: [], clock }, chain) ?? new Fault("UNAUTHENTICATED", "nothing is trusted yet");
        const { seen } = fault.details;
        if (typeof seen === "string") shown = parsePin(seen);
        return fault;
      },
    }),
  });
  try {
    await connection.client(Admin).getCaller({}, { signal });
  } catch (error) {
    if (shown === undefined) throw error;
  }
  if (shown === undefined) throw new Fault("UNAUTHENTICATED", `the gateway ${address} shows no authority`);
  return shown;
}

const tokenMaxBytes = 4096;

async function readToken(runtime: Runtime, address: string): Promise<string> {
  if (runtime.input.isTerminal) return await askSecret(runtime, `token for ${address}: `);
  try {
    return await runtime.input.readText({
      what: "the token",
      maxBytes: tokenMaxBytes,
      signal: runtime.signal,
    });
  } catch (error) {
    if (!(error instanceof Fault) || error.code !== "INVALID_ARGUMENT") throw error;
    throw error.with({ hint: "fairlead login URL --pin PIN < FILE, with the token in the file" });
  }
}
