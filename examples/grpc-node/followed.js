// A client of gRPC that follows the service config in a file.

import { readFile } from 'node:fs/promises';

/** Reading a small file costs nothing, and sees every way in which a mounted file can change. */
const MILLISECONDS_BETWEEN_READINGS = 1000;

/**
 * Makes a client with the service config in `file`, and another whenever that changes: to gRPC-Node it is an option of the
 * channel. Calls underway end on the client that began them.
 *
 * Without the file there is no service config, so nothing is hedged. A file that gRPC refuses is logged and changes nothing.
 *
 * @param {string} file in a mounted folder; one mounted by `subPath` never changes
 * @param {(options: import('@grpc/grpc-js').ChannelOptions) => import('@grpc/grpc-js').Client} make such as
 *     `(options) => new ShardClient('kb-shards:9090', credentials.createInsecure(), options)`
 * @returns {Promise<{ readonly client: import('@grpc/grpc-js').Client, close: () => void }>} `client` is the one for the next call
 */
export async function followed(file, make) {
  let text;
  let client;

  async function takeOn() {
    let now;
    try {
      now = await readFile(file, 'utf8');
    } catch (failure) {
      if (failure.code !== 'ENOENT') {
        console.error(`cannot read ${file}: ${failure.message}`);
        return;
      }
    }
    if (client !== undefined && now === text) {
      return;
    }
    text = now;
    try {
      const before = client;
      client = make(now === undefined ? {} : serviceConfig(now));
      before?.close();
      console.error(`${file} is ${now === undefined ? 'not there' : 'taken on'}`);
    } catch (refusal) {
      console.error(`${file} is refused and changes nothing: ${refusal.message}`);
      client ??= make({});
    }
  }

  await takeOn();
  const readings = setInterval(takeOn, MILLISECONDS_BETWEEN_READINGS);
  readings.unref();
  return {
    get client() {
      return client;
    },
    close() {
      clearInterval(readings);
      client.close();
    },
  };
}

function serviceConfig(text) {
  return { 'grpc.service_config': text, 'grpc.service_config_disable_resolution': 1 };
}
