/** Caches the files of the site, so that it works offline after its first use. */
const scope = /** @type {any} */ (globalThis);
// An origin may have many sites: each has its own cache, named by its path.
const own = `quod ${scope.registration.scope} `;
const version = `${own}VERSION`;

scope.addEventListener("install", () => scope.skipWaiting());

scope.addEventListener("activate", (/** @type {any} */ event) => {
  const others = async () => {
    for (const key of await caches.keys()) if (key.startsWith(own) && key !== version) await caches.delete(key);
    await scope.clients.claim();
  };
  event.waitUntil(others());
});

/** @param {Request} request */
async function answer(request) {
  const cache = await caches.open(version);
  const kept = await cache.match(request);
  if (kept) return kept;
  const response = await fetch(request);
  if (response.status === 200) {
    // A full disk is not an error.
    const copy = response.clone();
    cache.put(request, copy).catch(() => {});
  }
  return response;
}

scope.addEventListener("fetch", (/** @type {any} */ event) => {
  const { method, url } = event.request;
  if (method === "GET" && url.startsWith(scope.registration.scope)) event.respondWith(answer(event.request));
});
