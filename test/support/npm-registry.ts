import { spawn } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { mkdir, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import { buffer } from "node:stream/consumers";
import { makeTempFolder } from "./temp-folder.ts";

/** A package that a registry has. */
export interface RegistryPackage {
  readonly name: string;
  readonly version: string;
  /** Files by their path in the package; `package.json` is made. */
  readonly files: Readonly<Record<string, string>>;
  /** Programs by name, each a path in the package. */
  readonly bin?: Readonly<Record<string, string>>;
  readonly dependencies?: Readonly<Record<string, string>>;
  readonly scripts?: Readonly<Record<string, string>>;
}

/** A registry as npm asks one, on loopback. */
export interface NpmRegistry extends AsyncDisposable {
  readonly url: string;
  /** Adds a package, or a version of one, which is the latest then. */
  add(one: RegistryPackage): Promise<void>;
  /** Sends other bytes under a version from now on, with the hash as it was. */
  damage(name: string, version: string): void;
  /** What was asked: paths. */
  readonly asked: readonly string[];
}

interface Published {
  readonly manifest: Readonly<Record<string, unknown>>;
  tarball: Buffer;
}

/** Starts a registry with these packages. */
export async function startNpmRegistry(packages: readonly RegistryPackage[] = []): Promise<NpmRegistry> {
  const all = new Map<string, Map<string, Published>>();
  const asked: string[] = [];
  const server = createServer((request, response) => {
    const path = decodeURIComponent(new URL(request.url ?? "/", "http://registry").pathname).slice(1);
    asked.push(path);
    const [name = "", version] = path.replace(/\.tgz$/, "").split("/-/");
    const versions = all.get(name);
    const found = version === undefined ? undefined : versions?.get(version);
    if (!versions || (version !== undefined && !found)) return void response.writeHead(404).end("{}");
    if (found) return void response.end(found.tarball);
    const latest = [...versions.keys()].at(-1);
    response.setHeader("content-type", "application/json");
    response.end(
      JSON.stringify({
        name,
        "dist-tags": { latest },
        versions: Object.fromEntries(Array.from(versions, ([key, { manifest }]) => [key, manifest])),
      }),
    );
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const bound = server.address();
  const url = `http://127.0.0.1:${typeof bound === "object" && bound ? bound.port : 0}/`;
  const add = async ({ files, ...manifest }: RegistryPackage): Promise<void> => {
    const tarball = await toTarball({ ...files, "package.json": JSON.stringify(manifest) });
    const integrity = `sha512-${createHash("sha512").update(tarball).digest("base64")}`;
    const dist = { tarball: `${url}${manifest.name}/-/${manifest.version}.tgz`, integrity };
    const versions = all.get(manifest.name) ?? new Map<string, Published>();
    versions.set(manifest.version, { manifest: { ...manifest, dist }, tarball });
    all.set(manifest.name, versions);
  };
  for (const one of packages) await add(one);
  return {
    url,
    asked,
    add,
    damage: (name, version) => {
      const found = all.get(name)?.get(version);
      if (found) found.tarball = Buffer.concat([found.tarball, Buffer.alloc(64)]);
    },
    [Symbol.asyncDispose]: async () => {
      server.close();
      server.closeAllConnections();
      await once(server, "close");
    },
  };
}

async function toTarball(files: Readonly<Record<string, string>>): Promise<Buffer> {
  await using folder = await makeTempFolder();
  await mkdir(folder.join("package"));
  for (const [name, content] of Object.entries(files))
    await writeFile(folder.join(`package/${name}`), content, { mode: 0o755 });
  const tar = spawn("tar", ["-czf", "-", "-C", folder.path, "package"], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  return await buffer(tar.stdout);
}
