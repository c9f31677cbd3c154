import { Fault, type JsonValue } from "../../shared/fault/fault.ts";
import {
  Authority,
  AuthorityStep,
  type AuthorityNode,
  type AuthorityStatus,
} from "../../shared/gen/fairlead/v1/authority_pb.ts";
import type { CommandModule } from "../../shared/terminal/command.ts";
import { toTime, toWords } from "../../shared/terminal/json.ts";
import { openGateway } from "./open-gateway.ts";

const steps = [
  {
    word: "announce",
    step: AuthorityStep.ANNOUNCE,
    summary: "make the next key of the authority, and tell every node to trust it as well",
  },
  {
    word: "switch",
    step: AuthorityStep.SWITCH,
    summary: "let the next key sign from now on; what the old one signed still counts",
  },
  {
    word: "retire",
    step: AuthorityStep.RETIRE,
    summary: "remove the old key; what it signed counts no more",
    forces: true,
  },
  {
    word: "abort",
    step: AuthorityStep.ABORT,
    summary: "take the last step back, as long as the old key is there",
    forces: true,
  },
] as const;

const show: CommandModule = {
  words: "gateway authority show",
  summary: "where a change of the authority's key stands, and which node trusts what",
  example: "fairlead gateway authority show",
  run: async (_, runtime) => {
    await using gateway = await openGateway(runtime);
    const { status } = await gateway.client(Authority).getAuthority({}, gateway.call());
    const shown = given(status);
    await runtime.output.result(toJson(shown), () => toLines(shown));
  },
};

/** The `gateway authority` commands. */
export const authorityCommands: readonly CommandModule[] = [
  show,
  ...steps.map((entry): CommandModule => {
    const { word, step, summary } = entry;
    return {
      words: `gateway authority ${word}`,
      summary,
      example: `fairlead gateway authority ${word}`,
      ...("forces" in entry
        ? { options: [{ flags: "--force", text: "also when nodes are cut off and have to join again" }] }
        : {}),
      run: async (input, runtime) => {
        const force = "forces" in entry && input.flag("force");
        await using gateway = await openGateway(runtime);
        const { status } = await gateway.client(Authority).changeAuthority({ step, force }, gateway.call());
        const shown = given(status);
        await runtime.output.result(toJson(shown), () => toLines(shown));
      },
    };
  }),
];

function given(status: AuthorityStatus | undefined): AuthorityStatus {
  if (status) return status;
  throw new Fault("INTERNAL", "the gateway answered without the authority");
}

/** Whether a node was cut off: what signed its certificate is gone. */
function isCutOff({ current, next }: AuthorityStatus, { issuerPin }: AuthorityNode): boolean {
  return issuerPin !== "" && issuerPin !== current?.pin && issuerPin !== next?.pin;
}

/** Whether a node is through with the change: it trusts the next key, and once that signs, has a certificate of it. */
function isReady(status: AuthorityStatus, node: AuthorityNode): boolean {
  const { phase, next } = status;
  if (isCutOff(status, node)) return false;
  if (!next) return true;
  const trusts = node.trustedPins.includes(next.pin);
  return phase === "switched" ? trusts && node.issuerPin === next.pin : trusts;
}

function nextStep(status: AuthorityStatus): string {
  const cutOff = status.nodes.filter((node) => isCutOff(status, node)).length;
  const waiting = status.nodes.filter((node) => !isReady(status, node)).length - cutOff;
  if (status.phase === "announced") {
    return waiting === 0
      ? "fairlead gateway authority switch"
      : "nodes that link hear of it; those that sleep know the next key by the old one's signature: fairlead gateway authority switch";
  }
  if (status.phase !== "switched")
    return cutOff === 0 ? "" : "fairlead invite, then on those machines fairlead node join CODE";
  return waiting === 0
    ? "fairlead gateway authority retire"
    : "wait until every node has linked and renewed, then: fairlead gateway authority retire";
}

function toJson(status: AuthorityStatus): JsonValue {
  const { phase, sinceMs, current, next, signerPin, nodes } = status;
  return {
    phase,
    since: toTime(sinceMs),
    current: current ? { pin: current.pin, expiresAt: toTime(current.expiresMs) } : null,
    next: next ? { pin: next.pin, expiresAt: toTime(next.expiresMs) } : null,
    signer: signerPin,
    nextStep: nextStep(status),
    nodes: nodes.map((node) => ({
      id: node.id,
      alias: node.alias,
      issuer: node.issuerPin || null,
      trusts: node.trustedPins,
      ready: isReady(status, node),
      cutOff: isCutOff(status, node),
    })),
  };
}

function toLines(status: AuthorityStatus): readonly string[] {
  const { phase, sinceMs, current, next, signerPin, nodes } = status;
  const since = toTime(sinceMs);
  const cutOff = nodes.filter((node) => isCutOff(status, node));
  const waiting = nodes.filter((node) => !isReady(status, node) && !isCutOff(status, node));
  const step = nextStep(status);
  return [
    `phase: ${toWords(phase)}${since === null ? "" : ` since ${since}`}`,
    `current: ${current?.pin ?? ""}${current && signerPin === current.pin ? ", signs" : ""}`,
    ...(next ? [`next: ${next.pin}${signerPin === next.pin ? ", signs" : ""}`] : []),
    `nodes: ${nodes.length - waiting.length - cutOff.length} of ${nodes.length} ready`,
    ...waiting.map(
      ({ alias, trustedPins }) =>
        `waiting: ${alias} (${next && trustedPins.includes(next.pin) ? "has no certificate of the next key yet" : "has not said that it trusts the next key"})`,
    ),
    ...cutOff.map(({ alias }) => `cut off: ${alias} (a key that is gone signed its certificate)`),
    ...(step === "" ? [] : [`next step: ${step}`]),
  ];
}
