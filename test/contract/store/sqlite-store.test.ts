import { openStore } from "../../../gateway/store/store.ts";
import { makeTempFolder } from "../../support/temp-folder.ts";
import { describeStore } from "./store-contract.ts";

describeStore("SQLite", async () => {
  const folder = await makeTempFolder();
  return {
    open: () => openStore({ dir: folder.join("gateway") }),
    [Symbol.asyncDispose]: () => folder[Symbol.asyncDispose](),
  };
});
