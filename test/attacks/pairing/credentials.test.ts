import { once } from "node:events";
import { connect, type TLSSocket } from "node:tls";
import type { DescMethod } from "@bufbuild/protobuf";
import { expect } from "vitest";
import { createAuthority, issueNodeCertificate } from "../../../gateway/pairing/issue.ts";
import { Admin } from "../../../shared/gen/fairlead/v1/admin_pb.ts";
import { Audit } from "../../../shared/gen/fairlead/v1/audit_pb.ts";
import { Authority } from "../../../shared/gen/fairlead/v1/authority_pb.ts";
import { Files } from "../../../shared/gen/fairlead/v1/files_pb.ts";
import { LinkPurpose, Node, NodeLink } from "../../../shared/gen/fairlead/v1/link_pb.ts";
import { Pairing } from "../../../shared/gen/fairlead/v1/pairing_pb.ts";
import { Policy } from "../../../shared/gen/fairlead/v1/policy_pb.ts";
import { Sessions } from "../../../shared/gen/fairlead/v1/sessions_pb.ts";
import { State } from "../../../shared/gen/fairlead/v1/state_pb.ts";
import { parseAddress } from "../../../shared/identity/address.ts";
import { createKeyPem, publicKeyOf } from "../../../shared/identity/keys.ts";
import { openGrpcClient } from "../../../shared/rpc/grpc-client.ts";
import { faultOfEmptyCall } from "../../support/empty-call.ts";
import { pairIdentity } from "../../support/paired-identity.ts";
import { proves } from "../../support/proves.ts";
import { startGateway } from "../../support/start-gateway.ts";

/** What a machine holds by itself; the two methods by which it gets or renews an identity take it without one. */
const nodeMethods: readonly (readonly [DescMethod, Readonly<Record<string, unknown>>])[] = [
  [NodeLink.method.control, { kind: { case: "hello", value: { purpose: LinkPurpose.CONTROL } } }],
  [NodeLink.method.serve, { frame: { case: "parked", value: { generation: 1n } } }],
  [Node.method.getOutcome, {}],
  [Pairing.method.renew, {}],
  [Pairing.method.leave, {}],
];

interface Shown {
  readonly key?: string;
  readonly cert?: string;
}

/** Dials with a certificate, or none, and says the first words of HTTP/2. */
async function dial(address: string, shown: Shown): Promise<{ socket: TLSSocket; received: () => number }> {
  const { host, port } = parseAddress(address, "link");
  const socket = connect({ host, port, ...shown, rejectUnauthorized: false, ALPNProtocols: ["h2"] });
  let received = 0;
  socket.on("data", (bytes: Buffer) => void (received += bytes.byteLength)).on("error", () => undefined);
  await Promise.race([once(socket, "secureConnect"), once(socket, "close")]);
  socket.write("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0");
  return { socket, received: () => received };
}

proves(
  "pairing.credentials-not-interchangeable",
  "a machine's certificate opens no administrators' method, a token none of a machine, and a foreign certificate nothing",
  { timeout: 120_000 },
  async () => {
    await using gateway = await startGateway();
    await using machine = await pairIdentity(gateway, { alias: "machine" });
    await using asNode = openGrpcClient({ address: machine.address, security: machine.tls });
    const { keyPem, certificatePem, verifyPeer } = machine.tls();
    for (const service of [Admin, Audit, Authority, Files, Policy, Sessions, State]) {
      for (const method of service.methods) {
        const fault = await faultOfEmptyCall(asNode, method);
        expect(fault?.code, `${service.typeName} ${method.name}`).toBe("UNAUTHENTICATED");
      }
    }
    const { token } = (await gateway.json(["tokens", "create", "--role", "admin"])) as {
      readonly token: string;
    };
    const metadata = { authorization: `Bearer ${token}` };
    await using asAdmin = openGrpcClient({
      address: machine.address,
      security: () => ({ verifyPeer }),
      metadata,
    });
    expect(await faultOfEmptyCall(asAdmin, Admin.method.listNodes)).toBeUndefined();
    for (const [method, first] of nodeMethods)
      expect((await faultOfEmptyCall(asAdmin, method, first))?.code, method.name).toBe("UNAUTHENTICATED");

    // The same name and key, signed by somebody else.
    const other = await createAuthority(Date.now());
    const key = await createKeyPem();
    const forged = await issueNodeCertificate(other, {
      id: machine.nodeId,
      publicKey: publicKeyOf(key),
      now: Date.now(),
    });
    const foreign = await dial(machine.address, { key, cert: forged.pem + other.certificatePem });
    if (!foreign.socket.closed) await once(foreign.socket, "close");
    expect(foreign.received()).toBe(0);
    for (const shown of [{ key: keyPem, cert: certificatePem }, {}] as readonly Shown[]) {
      const own = await dial(machine.address, shown);
      await expect.poll(own.received).toBeGreaterThan(0);
      own.socket.destroy();
    }
    // Nothing of it has ended the gateway, or another's connection.
    expect(await faultOfEmptyCall(asAdmin, Admin.method.listNodes)).toBeUndefined();
  },
);
