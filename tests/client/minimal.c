/* Takes the batches of a group, one after another, and says which samples they had.

   DSANALYZE_GROUP=unix:PATH minimal      as `dsanalyze share` prints it */

#include <dsanalyze/dsanalyze.h>

#include <inttypes.h>
#include <stdio.h>

int main(void) {
  dsa_client* client;
  dsa_terms terms = DSA_TERMS_INIT;
  dsa_batch batch = DSA_BATCH_INIT;
  dsa_status status;
  uint64_t samples = 0, digest = 0;
  uint32_t i;

  if (dsa_attach(NULL, &client) != DSA_OK || dsa_info(client, &terms) != DSA_OK) {
    fprintf(stderr, "minimal: %s\n", dsa_last_error());
    return 1;
  }
  printf("job %" PRIu32 " of %" PRIu32 ": %" PRIu64 " samples an epoch, prep: %s\n", terms.place, terms.jobs, terms.samples, terms.prep);

  while ((status = dsa_next(client, &batch, -1)) == DSA_OK || status == DSA_TIMEOUT) {
    if (status == DSA_TIMEOUT) continue; /* the other jobs have not come yet, or are slow */
    /* Train here: batch.samples has batch.count samples, batch.shape[1] x ... each; sample i is of class batch.labels[i]. */
    for (i = 0; i < batch.count; ++i) digest += (batch.ids[i] + UINT64_C(1)) * UINT64_C(0x9E3779B97F4A7C15);
    samples += batch.count;
    if (batch.last_of_epoch) {
      printf("epoch %" PRIu64 ": %" PRIu64 " samples, digest %016" PRIx64 "\n", batch.epoch, samples, digest);
      samples = digest = 0;
    }
    dsa_release(client, batch.token);
  }
  if (status != DSA_END) fprintf(stderr, "minimal: %s: %s\n", dsa_status_text(status), dsa_last_error());
  dsa_detach(client);
  return status == DSA_END ? 0 : 1;
}
