/** Access to the elements of the page. */

/** @param {string} id @returns {any} */
export const $ = (id) => document.getElementById(id);

/**
 * Creates an element.
 * @param {string} tag
 * @param {object} [properties]
 * @param {(Node | string)[]} children
 */
export const make = (tag, properties, ...children) => {
  const element = Object.assign(document.createElement(tag), properties);
  element.append(...children);
  return element;
};
