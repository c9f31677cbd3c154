import { rm } from "node:fs/promises";
import path from "node:path";
import type { Home } from "../../shared/config/home.ts";
import { Fault } from "../../shared/fault/fault.ts";
import { joinAddress, parseAddress } from "../../shared/identity/address.ts";
import { parsePin, type Pin } from "../../shared/identity/pin.ts";
import { makePrivateFolder, readPrivateFile, writePrivateFile } from "../../shared/identity/private-files.ts";

/** Where an administrator is logged in. */
export interface Login {
  /** `HOST:PORT`. */
  readonly address: string;
  /** The key that its authority must have. */
  readonly pin: Pin;
  /** A secret. */
  readonly token: string;
}

/** The login of a home, if there is one. `INTEGRITY_FAILURE` when its file is not as it was written. */
export async function readLogin(home: Home): Promise<Login | undefined> {
  const file = await readPrivateFile(fileOf(home));
  if (file === undefined) return undefined;
  try {
    const { address, pin, token } = JSON.parse(file.text) as { readonly [name: string]: unknown };
    return {
      address: joinAddress(parseAddress(String(address))),
      pin: parsePin(String(pin)),
      token: String(token),
    };
  } catch (error) {
    throw new Fault("INTEGRITY_FAILURE", "the file of the login, login.json, cannot be read", {
      hint: "fairlead logout, then fairlead login URL",
      details: { path: "login.json" },
      cause: error,
    });
  }
}

/** Keeps a login for the owner of the home alone, in place of the one before. */
export async function writeLogin(home: Home, login: Login): Promise<void> {
  await makePrivateFolder(home.dir);
  await writePrivateFile(fileOf(home), `${JSON.stringify(login)}\n`);
}

/** Forgets the login of a home; again is as good. */
export async function removeLogin(home: Home): Promise<void> {
  await rm(fileOf(home), { force: true });
}

function fileOf(home: Home): string {
  return path.join(home.dir, "login.json");
}
