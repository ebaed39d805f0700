/** The parts of the page that only sites of a Spend, an Output or a Convert have. */
import { $, make } from "../elements.js";

const PATH = { position: 7, path: ["32 siblings of 32 bytes, the leaf's first"] };

/**
 * Returns the required fields of a document, with the form of their values.
 * @param {any} action
 */
function formOf({ statement, protocol }) {
  const note = { address: "43 bytes", value: 5000, rseed: "32 bytes", ...(protocol.has_assets && { asset: "32 bytes" }) };
  if (statement === "output") return note;
  if (statement === "spend") return { ak: "32 bytes", nsk: "32 bytes", note, ...PATH };
  return { weights: { "an asset, 32 bytes": -1, "another asset": 1 }, value: 5000, ...PATH };
}

/**
 * Returns a field of the result with its buttons.
 * @param {string} id
 */
function resultField(id) {
  const row = make("div", { className: "row" }, make("button", {}, "Copy"), make("button", {}, "Download"));
  row.dataset.of = id;
  return [make("h3", {}, `${id}.json`), make("pre", { id, tabIndex: 0, role: "region", ariaLabel: `${id}.json` }), row];
}

/**
 * Turns the page into that of an action: with a field for its document, and for its description.
 * @param {any} action
 */
export function showDocumentField(action) {
  const name = action.statement;
  const placeholder = JSON.stringify(formOf(action), null, 1);
  const details = $("as-json");
  details.open = true;
  details.querySelector("summary").hidden = true;
  details.querySelector("label").textContent = `${name[0].toUpperCase()}${name.slice(1)} as JSON, with bytes in hex: the input of quod zcash prove-${name}`;
  Object.assign($("json"), { placeholder, rows: Math.max(10, placeholder.split("\n").length) });

  const secrets = make("details", {}, make("summary", {}, "Secrets for the rest of the transaction"),
    make("p", {}, "The signatures and the encrypted note need these numbers. Save them: they do not leave this page, and it does not store them. Keep them secret."),
    ...resultField("secrets"));
  const snarkjs = make("details", {}, make("summary", {}, "The proof in snarkjs's format"));
  $("signals").replaceWith(...resultField("description"), secrets, snarkjs);
  snarkjs.append($("snarkjs"));

  $("v-snarkjs").hidden = true;
  $("v-snarkjs").before(make("label", { htmlFor: "v-description" }, "description.json"),
    make("textarea", { id: "v-description", rows: 8, autocomplete: "off" }));
}

/**
 * Shows the description of a proof and the secrets.
 * @param {any} result
 */
export function showDescription({ description, secrets }) {
  $("description").textContent = $("v-description").value = JSON.stringify(description, null, 1);
  $("secrets").textContent = JSON.stringify(secrets, null, 1);
}
