import {
  publicKeyOf,
  signingAlgorithm,
  signingKeyFrom,
  verifyingKeyFrom,
} from "../../shared/identity/keys.ts";
import { loadX509 } from "../../shared/identity/x509.ts";

/** A certificate request that is signed with its own key and names somebody else. */
export async function requestNaming(keyPem: string, name: string): Promise<Uint8Array> {
  const { Pkcs10CertificateRequestGenerator } = await loadX509();
  const request = await Pkcs10CertificateRequestGenerator.create({
    keys: {
      privateKey: await signingKeyFrom(keyPem),
      publicKey: await verifyingKeyFrom(publicKeyOf(keyPem)),
    },
    name: `CN=${name}`,
    signingAlgorithm,
  });
  return new Uint8Array(request.rawData);
}
