// Reads queries from standard input, one a line, asks a shard, and prints how each call ended: a status of gRPC and the answer.
//
// Arguments: the shard as HOST:PORT, and the file that Hedgerow writes.

import { createInterface } from 'node:readline';
import { Client, credentials, status } from '@grpc/grpc-js';
import { followed } from './followed.js';

const [shard, file] = process.argv.slice(2);
const search = await followed(file, (options) => new Client(shard, credentials.createInsecure(), options));
for await (const query of createInterface({ input: process.stdin })) {
  console.log(await ask(query));
}
search.close();

/** Plain text, so that the example needs no generated code. */
function ask(query) {
  return new Promise((resolve) => {
    search.client.makeUnaryRequest('/search.Shard/Read', Buffer.from, String, query, (failure, answer) => {
      resolve(failure ? `${status[failure.code]} ${failure.details}` : `OK ${answer}`);
    });
  });
}
