/** Keeps the files of the site, so that it works without a connection once it has been used. */
const version = "quod-VERSION";
const scope = /** @type {any} */ (globalThis);

scope.addEventListener("install", () => scope.skipWaiting());

scope.addEventListener("activate", (/** @type {any} */ event) => {
  const others = async () => {
    for (const key of await caches.keys()) if (key.startsWith("quod-") && key !== version) await caches.delete(key);
    await scope.clients.claim();
  };
  event.waitUntil(others());
});

/** @param {Request} request */
async function answer(request) {
  const kept = await caches.match(request);
  if (kept) return kept;
  const response = await fetch(request);
  if (response.status === 200) {
    // A full disk is no reason to fail.
    const copy = response.clone();
    caches.open(version).then((cache) => cache.put(request, copy)).catch(() => {});
  }
  return response;
}

scope.addEventListener("fetch", (/** @type {any} */ event) => {
  const { method, url } = event.request;
  if (method === "GET" && url.startsWith(scope.registration.scope)) event.respondWith(answer(event.request));
});
