/** Caches the files of the site, so that it works offline after its first use. */
const scope = /** @type {any} */ (globalThis);
// An origin may have many sites: each has its own cache, named by its path.
const cachePrefix = `quod ${scope.registration.scope} `;
const cacheName = `${cachePrefix}VERSION`;

scope.addEventListener("install", () => scope.skipWaiting());

scope.addEventListener("activate", (/** @type {any} */ event) => {
  const deleteOldCaches = async () => {
    for (const key of await caches.keys()) if (key.startsWith(cachePrefix) && key !== cacheName) await caches.delete(key);
    await scope.clients.claim();
  };
  event.waitUntil(deleteOldCaches());
});

/**
 * Returns the cached response of a request; otherwise fetches and caches it.
 * @param {Request} request
 */
async function respond(request) {
  const cache = await caches.open(cacheName);
  const cached = await cache.match(request);
  if (cached) return cached;
  const response = await fetch(request);
  if (response.status === 200) {
    // A failure to store the response, such as a full disk, is not an error.
    const copy = response.clone();
    cache.put(request, copy).catch(() => {});
  }
  return response;
}

// The page keeps data files, such as a key, itself (keys.js).
scope.addEventListener("fetch", (/** @type {any} */ event) => {
  const { method, url } = event.request;
  if (/\/data-\d+\.bin$/.test(url)) return;
  if (method === "GET" && url.startsWith(scope.registration.scope)) event.respondWith(respond(event.request));
});
