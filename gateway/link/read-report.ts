import { isFaultCode } from "../../shared/fault/codes.ts";
import type { IdentityReport } from "../../shared/gen/fairlead/v1/link_pb.ts";
import { isPin } from "../../shared/identity/pin.ts";
import { toReportedText } from "../pairing/reported-text.ts";
import type { ReportedIdentity } from "./links.ts";

/** Most authorities that a report may name; a node trusts two at most. */
const maxPins = 4;

/** A node's report made harmless: what is no pin or no code is left out, texts are cut. */
export function readReport(report: IdentityReport): ReportedIdentity {
  const { renewal } = report;
  const trustedPins = report.trustedPins.filter((pin) => isPin(pin)).slice(0, maxPins);
  const ignored = Number(report.ignoredTrustSerial);
  const ignoredTrustSerial = Number.isSafeInteger(ignored) ? ignored : 0;
  if (!renewal) return { trustedPins, ignoredTrustSerial };
  return {
    trustedPins,
    ignoredTrustSerial,
    renewal: {
      sinceMs: Math.max(0, Number(renewal.sinceMs)),
      code: isFaultCode(renewal.code) ? renewal.code : "INTERNAL",
      message: toReportedText(renewal.message),
      expiresMs: Math.max(0, Number(renewal.expiresMs)),
    },
  };
}
