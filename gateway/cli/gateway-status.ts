import { Admin } from "../../shared/gen/fairlead/v1/admin_pb.ts";
import type { CommandModule } from "../../shared/terminal/command.ts";
import { toTime, toWords } from "../../shared/terminal/json.ts";
import { openGateway } from "./open-gateway.ts";

/** `gateway status`: health, addresses and limits. */
export const gatewayStatus: CommandModule = {
  words: "gateway status",
  summary: "health of the gateway, its addresses and limits",
  example: "fairlead gateway status --json",
  run: async (_, runtime) => {
    await using gateway = await openGateway(runtime);
    const answer = await gateway.client(Admin).getStatus({}, gateway.call());
    const limits = Object.fromEntries(
      Object.entries(answer.limits).map(([name, value]) => [name, Number(value)]),
    );
    const json = {
      state: answer.state,
      version: answer.version,
      link: answer.linkAddress,
      http: answer.httpAddress,
      pin: answer.pin,
      startedAt: toTime(answer.startedMs),
      nodes: answer.nodes,
      nodesOnline: answer.nodesOnline,
      sessions: answer.sessions,
      advertised: answer.advertised,
      limits,
    };
    await runtime.output.result(json, () => [
      `state: ${toWords(answer.state)} since ${json.startedAt ?? "unknown"}`,
      `version: ${answer.version}`,
      `link: ${answer.linkAddress} (join codes carry ${answer.advertised.join(", ") || "nothing"})`,
      `http: ${answer.httpAddress}`,
      `pin: ${answer.pin}`,
      `nodes: ${answer.nodesOnline} of ${answer.nodes} online`,
      `sessions: ${answer.sessions}`,
    ]);
  },
};
