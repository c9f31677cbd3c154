import type { JsonValue } from "../../shared/fault/fault.ts";
import { Admin, type AdminGetCallerResponse } from "../../shared/gen/fairlead/v1/admin_pb.ts";
import type { CommandModule } from "../../shared/terminal/command.ts";
import { toTime } from "../../shared/terminal/json.ts";
import { chooseGateway, type ChosenBy } from "./choose-gateway.ts";
import { openChosenGateway } from "./open-gateway.ts";

const chosenTexts: Readonly<Record<ChosenBy, string>> = {
  option: "named with --gateway",
  environment: "named in FAIRLEAD_GATEWAY",
  local_socket: "the gateway of this home",
  login: "chosen with fairlead login",
};

/** `whoami`: which gateway commands talk to, and as whom. */
export const commands: readonly CommandModule[] = [
  {
    words: "whoami",
    summary: "the gateway that commands talk to, why that one, and the user and role there",
    example: "fairlead whoami",
    run: async (_, runtime) => {
      const chosen = await chooseGateway(runtime);
      await using gateway = await openChosenGateway(chosen, runtime);
      const caller = await gateway.client(Admin).getCaller({}, gateway.call());
      const name = chosen.chosenBy === "local_socket" ? chosen.socket : `https://${chosen.address}`;
      const json = { gateway: name, chosenBy: chosen.chosenBy, ...callerToJson(caller) };
      await runtime.output.result(json, () => [
        `gateway: ${name} (${chosenTexts[chosen.chosenBy]}), version ${caller.version}`,
        `user: ${caller.user}`,
        `role: ${caller.role}`,
        ...(caller.token === ""
          ? []
          : [`token: ${caller.token}, until ${toTime(caller.expiresMs) ?? "for ever"}`]),
      ]);
    },
  },
];

/** Who calls, for people's programs. */
export function callerToJson(caller: AdminGetCallerResponse): { readonly [key: string]: JsonValue } {
  return {
    user: caller.user,
    role: caller.role,
    token: caller.token === "" ? null : caller.token,
    expiresAt: toTime(caller.expiresMs) ?? null,
    version: caller.version,
  };
}
