"use strict";

// Every text of the data reaches the page through textContent, attributes of fixed names, or a
// canvas; none is ever read as markup.

const data = JSON.parse(document.getElementById("data").textContent);
const at = (id) => document.getElementById(id);
const integers = new Intl.NumberFormat("en");

function element(tag, attributes = {}, ...children) {
  return filled(document.createElement(tag), attributes, children);
}

function drawing(tag, attributes = {}, ...children) {
  return filled(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function filled(node, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) node.setAttribute(name, value);
  node.append(...children); // strings become text nodes
  return node;
}

function decimals(value) {
  if (value === null || value === undefined) return "–";
  const size = Math.abs(value);
  if (size !== 0 && (size < 0.0005 || size >= 1e6)) return value.toExponential(1);
  return value.toFixed(3);
}

/* The first letters of a text and the last: names often differ at their ends. */

function shortened(text, length) {
  const letters = [...text];
  if (letters.length <= length) return text;
  const kept = Math.max(length - 1, 2);
  const tail = letters.slice(letters.length - Math.floor(kept / 2));
  return [...letters.slice(0, Math.ceil(kept / 2)), "…", ...tail].join("");
}
