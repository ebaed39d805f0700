// Written by python -m quod.web.curve_table from quod.curve.named.

/** @typedef {import("./field.js").Fq2} Fq2 */

export const sources = {
  bn254: {
    snarkjs: "bn128",
    aliases: /** @type {string[]} */ (["bn254", "altbn128"]),
    family: /** @type {const} */ ("bn"),
    q: 0x30644e72e131a029b85045b68181585d97816a916871ca8d3c208c16d87cfd47n,
    r: 0x30644e72e131a029b85045b68181585d2833e84879b9709143e1f593f0000001n,
    x: 0x44e992b44a6909f1n,
    xi: /** @type {Fq2} */ ([9n, 1n]),
    b: 3n,
    generator1: 1n,
    generator2: /** @type {[Fq2, Fq2]} */ ([
      [0x1800deef121f1e76426a00665e5c4479674322d4f75edadd46debd5cd992f6edn, 0x198e9393920d483a7260bfb731fb5d25f1aa493335a9e71297e485b7aef312c2n],
      [0x12c85ea5db8c6deb4aab71808dcb408fe3d1e7690c43d37b4ce6cc0166fa7daan, 0x90689d0585ff075ec9e99ad690c3395bc4b313370b38ef355acdadcd122975bn],
    ]),
    bytes: 32,
  },
  bls12_381: {
    snarkjs: "bls12381",
    aliases: /** @type {string[]} */ ([]),
    family: /** @type {const} */ ("bls12"),
    q: 0x1a0111ea397fe69a4b1ba7b6434bacd764774b84f38512bf6730d2a0f6b0f6241eabfffeb153ffffb9feffffffffaaabn,
    r: 0x73eda753299d7d483339d80809a1d80553bda402fffe5bfeffffffff00000001n,
    x: -0xd201000000010000n,
    xi: /** @type {Fq2} */ ([1n, 1n]),
    b: 4n,
    generator1: 0x17f1d3a73197d7942695638c4fa9ac0fc3688c4f9774b905a14e3a3f171bac586c55e83ff97a1aeffb3af00adb22c6bbn,
    generator2: /** @type {[Fq2, Fq2]} */ ([
      [0x24aa2b2f08f0a91260805272dc51051c6e47ad4fa403b02b4510b647ae3d1770bac0326a805bbefd48056c8c121bdb8n, 0x13e02b6052719f607dacd3a088274f65596bd0d09920b61ab5da61bbdc7f5049334cf11213945d57e5ac7d055d042b7en],
      [0xce5d527727d6e118cc9cdc6da2e351aadfd9baa8cbdd3a76d429a695160d12c923ac9cc3baca289e193548608b82801n, 0x606c4a02ea734cc32acd2b02bc28b99cb3e287e85a763af267492ab572e99ab3f370d275cec1da1aaa9075ff05f79ben],
    ]),
    bytes: 48,
  },
};
