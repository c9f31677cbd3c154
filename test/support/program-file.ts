import { join } from "node:path";
import { fileURLToPath } from "node:url";

/** Where the sources are. */
export const sourceFolder: string = fileURLToPath(new URL("../..", import.meta.url));

/** Where the programs are built for the tests; beside the sources, so that they find the same packages. */
export const builtFolder: string = fileURLToPath(new URL("../../dist.test", import.meta.url));

/** The program's entry as the tests start it, built from the sources when the run began. */
export const programFile: string = `${builtFolder}/main.js`;

/** The program's entry among its sources, which load one file each. */
export const sourceProgramFile: string = join(sourceFolder, "main.ts");
