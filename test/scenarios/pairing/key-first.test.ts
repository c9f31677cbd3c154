import { createPrivateKey } from "node:crypto";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { connect, createServer, type AddressInfo } from "node:net";
import { expect } from "vitest";
import { formatJoinCode, parseJoinCode } from "../../../shared/identity/join-code.ts";
import { proves } from "../../support/proves.ts";
import { readLiveFiles } from "../../support/read-live-files.ts";
import { startGateway } from "../../support/start-gateway.ts";
import { inviteCode } from "../../support/start-node.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";
import { joinAs } from "./pairing-gateway.ts";

/** A way to a port that looks once somebody comes, before a byte was passed on. */
async function startDoor(
  to: string,
  look: () => void,
): Promise<AsyncDisposable & { readonly address: string }> {
  const port = Number(to.split(":")[1]);
  const server = createServer((socket) => {
    look();
    const onward = connect({ host: "127.0.0.1", port });
    for (const one of [socket, onward]) one.on("error", () => undefined);
    socket.pipe(onward).pipe(socket);
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    address: `127.0.0.1:${(server.address() as AddressInfo).port}`,
    [Symbol.asyncDispose]: () => server[Symbol.asyncDispose](),
  };
}

/** Every spelling of a private key that a file could hold. */
function spellingsOf(keyPem: string): readonly Buffer[] {
  const key = createPrivateKey(keyPem);
  const { d = "" } = key.export({ format: "jwk" });
  const scalar = Buffer.from(d, "base64url");
  const der = key.export({ type: "pkcs8", format: "der" });
  const texts = [scalar, der].flatMap((bytes) =>
    (["hex", "base64", "base64url"] as const).map((encoding) => Buffer.from(bytes.toString(encoding))),
  );
  const lines = keyPem.split("\n").filter((line) => line.length > 40);
  return [scalar, ...texts, ...lines.map((line) => Buffer.from(line))];
}

proves(
  "pairing.key-before-first-contact",
  "a machine's key is on its disk before it says a word, and never comes to the gateway",
  { timeout: 120_000 },
  async () => {
    await using gateway = await startGateway();
    await using home = await makeTempFolder();
    await using place = await makeTempFolder();
    const keyFile = home.join("node/identity.new/key.pem");
    const seen: boolean[] = [];
    await using door = await startDoor(gateway.link, () => void seen.push(existsSync(keyFile)));
    const code = parseJoinCode(await inviteCode(gateway));
    const { identity } = await joinAs(formatJoinCode({ ...code, addresses: [door.address] }), home);
    expect(seen).toEqual([true]);
    expect(createPrivateKey(identity.keyPem).asymmetricKeyDetails?.namedCurve).toBe("prime256v1");

    const backup = place.join("backup");
    expect((await gateway.cli(["gateway", "backup", backup])).exitCode).toBe(0);
    const files = [...(await readLiveFiles(gateway.home)), ...(await readLiveFiles(place.path))];
    expect(files.some((file) => file.path.endsWith("state.db"))).toBe(true);
    expect(files.some((file) => file.path.startsWith(backup))).toBe(true);
    const spellings = spellingsOf(identity.keyPem);
    for (const { bytes } of files) {
      for (const spelling of spellings) expect(bytes.includes(spelling)).toBe(false);
    }
    // What is looked for is what a file of the machine holds.
    const own = await readFile(home.join("node/identity/key.pem"));
    expect(spellings.some((spelling) => own.includes(spelling))).toBe(true);
  },
);
