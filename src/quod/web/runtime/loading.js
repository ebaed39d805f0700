/** Reports that page.js, or a module that it imports, does not load; then no other script of the page runs. */
addEventListener("error", ({ target }) => {
  const status = document.getElementById("device");
  if (!(target instanceof HTMLScriptElement) || !status) return;
  status.className = "bad";
  status.textContent = "A script of this page could not be loaded: check the connection and load the page again, or upload the site again.";
}, true);
