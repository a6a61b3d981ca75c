#ifndef DSANALYZE_DSANALYZE_H
#define DSANALYZE_DSANALYZE_H

// libdsanalyze: takes part in a group of jobs that share prepared batches (`dsanalyze share`, docs/client.md), or loads batches for this process
// alone (dsa_loader_open(), below). Plain C99, and stable: a program that was built with this header runs with every later library of the same
// soname.
//
// A process attaches, takes batches in order, reads each in place and gives it back, and detaches:
//
//   dsa_client* client;
//   dsa_batch batch = DSA_BATCH_INIT;
//   if (dsa_attach(NULL, &client) != DSA_OK) fail(dsa_last_error());
//   while ((status = dsa_next(client, &batch, -1)) == DSA_OK || status == DSA_TIMEOUT) {
//     if (status == DSA_TIMEOUT) continue;      // others have not come yet, or are slow
//     train_on(batch.samples, batch.labels, batch.count);
//     dsa_release(client, batch.token);
//   }
//   dsa_detach(client);
//
// Structs begin with their size, which the caller sets (DSA_..._INIT does). A smaller one than the library knows is one of an older header: what it
// lacks is as its default says, and is not written. A larger one is one of a newer header: what the library does not know is refused in what it is
// given unless it is zero, and zeroed in what it gives.
//
// Errors: every call returns a status, and leaves in words what went wrong for the calling thread (dsa_last_error()). Any call may return
// DSA_NO_MEMORY, and DSA_FAILED for what its description does not name. No exception leaves the library, it prints nothing, ends nothing, and touches
// no signal: its own threads have all signals blocked. Descriptors are close-on-exec.
//
// Threads: any call from any thread, at any time; dsa_next() of one client takes turns. A handle that was detached, or never was one, is refused.
//
// fork(): a child is not the member that its parent is. In it every call on its parent's clients returns DSA_FORKED, and dsa_detach() lets go of the
// child's copy without leaving the group; it may attach anew, as a job of its own. What of a batch its parent held stays readable in the child.

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/// Of this header. Its major number is the library's soname.
#define DSA_VERSION_MAJOR 0
#define DSA_VERSION_MINOR 1
#define DSA_VERSION_PATCH 0
#define DSA_VERSION ((uint32_t)(DSA_VERSION_MAJOR * 65536 + DSA_VERSION_MINOR * 256 + DSA_VERSION_PATCH))
/// DSA_VERSION of the library that runs. Never fails.
uint32_t dsa_version(void);

/// How a call ended. Later libraries may know more.
typedef int32_t dsa_status;
enum {
  DSA_OK = 0,
  DSA_TIMEOUT = 1,     ///< not within the time given; ask again
  DSA_END = 2,         ///< no batch will come any more: the group has ended, this job had all its epochs, or it has left
  DSA_BUSY = 3,        ///< as many batches as this job may hold are not released
  DSA_INVALID = 4,     ///< an argument makes no sense, or is no client; nothing was done
  DSA_NO_GROUP = 5,    ///< no process answers at the address
  DSA_REFUSED = 6,     ///< the group has other terms than were asked for, or does not take this job: dsa_last_error() says what differs
  DSA_LOST = 7,        ///< the coordinator is gone, and the group with it
  DSA_EXPELLED = 8,    ///< this job was put out of its group: its process wrote over what it shares, or was taken for gone
  DSA_FAILED = 9,      ///< the work failed (samples that cannot be read or decoded, the system): dsa_last_error() says what
  DSA_NO_MEMORY = 10,  ///< there is not the memory that it takes
  DSA_FORKED = 11      ///< the client is the parent process's, and this is a child that was forked
};
/// "timeout", ...; never NULL. Valid for ever.
const char* dsa_status_text(dsa_status status);
/// What the last call of this thread that did not return DSA_OK had to say, in words, with what to do; "" before. Of a DSA_TIMEOUT and a DSA_END too.
/// Never NULL; valid until the thread's next call, or its end.
const char* dsa_last_error(void);

/// A membership. Not a pointer to anything: never reused, so that a stale one is known.
typedef struct dsa_client dsa_client;

/// What a call that waits takes for a negative time: 10 s.
#define DSA_DEFAULT_TIMEOUT_MS 10000

/// Told while dsa_attach() waits, in its thread: this job takes part from `epoch` on, which is expected to open in so many seconds; negative: not
/// known. Must not throw, nor call the library.
typedef void (*dsa_waiting)(void* context, uint64_t epoch, double seconds);

/// How to attach. All zero but the size: as DSANALYZE_GROUP in the environment says, with the group's own terms.
typedef struct dsa_options {
  uint32_t struct_size;
  uint32_t batch_size;         ///< 0: whatever the group has; otherwise a demand, as those below: a group that has another refuses this job
  const char* address;         ///< "unix:/path/of/the/socket"; NULL: DSANALYZE_GROUP
  const uint64_t* seed;        ///< NULL: whatever
  const char* dataset_digest;  ///< NULL: whatever
  const char* prep;            ///< as dsa_info says it; NULL: whatever
  int32_t timeout_ms;          ///< to be let in; 0 or negative: DSA_DEFAULT_TIMEOUT_MS
  uint32_t reserved;           ///< 0
  dsa_waiting waiting;         ///< may be NULL
  void* waiting_context;       ///< what it is called with
  uint64_t epochs;             ///< after which this job gets DSA_END; 0: as the group has it
  const char* subset;          ///< of a dependent group (`share --share dependent`): which samples this job's epochs have; NULL: all. Numbers, ranges
                               ///< of them and of the index in percent, with commas between: "7,100-199" (both ends included), "25%-75%", "10%"
  const char* name;  ///< of a dependent group: under which this job goes on in mid-epoch if it comes again after it died, or after the group was
                     ///< saved and resumed. 1 to 200 bytes, no other job's. NULL: DSANALYZE_JOB, if that is set and no other job has it
} dsa_options;
#define DSA_OPTIONS_INIT \
  { (uint32_t)sizeof(dsa_options), 0, NULL, NULL, NULL, NULL, 0, 0, NULL, NULL, 0, NULL, NULL }

/// Joins the group. `options` may be NULL. A group that has all its jobs lets another in when a place falls free, at an epoch's end: DSA_TIMEOUT when
/// that is beyond the timeout, with how long it is expected to take. A job that comes in mid-epoch is let in, and gets batches from the next epoch
/// on (dsa_info.first_epoch). *client is NULL unless DSA_OK is returned. A dependent group begins each job's own epochs when it comes; to such a
/// job dsa_info() describes a group of itself alone.
/// Where the group's jobs make the batches (DSA_PRODUCERS_JOBS), this one makes its share in threads of the library from now on, whether or not it
/// takes any: it reads the dataset, and takes CPU time.
/// Errors: DSA_INVALID (no address, options), DSA_NO_GROUP, DSA_REFUSED, DSA_TIMEOUT, DSA_END (the group has ended, or the job had all its epochs),
/// DSA_LOST, DSA_NO_MEMORY, DSA_FAILED.
dsa_status dsa_attach(const dsa_options* options, dsa_client** client);

/// The type of an element, as DLPack has it (DLDataType).
typedef struct dsa_dtype {
  uint8_t code;  ///< DSA_UINT, DSA_FLOAT, DSA_SAMPLE
  uint8_t bits;
  uint16_t lanes;  ///< 1
} dsa_dtype;
enum {
  DSA_UINT = 1,
  DSA_FLOAT = 2,
  DSA_SAMPLE = 3  ///< each element is a dsa_sample: of loaders whose samples are of different sizes
};
enum { DSA_MAX_DIMENSIONS = 8 };
enum {
  DSA_PRODUCERS_JOBS = 0,        ///< every job makes its share of the batches
  DSA_PRODUCERS_COORDINATOR = 1  ///< the coordinator makes all
};

/// What a group has agreed on, and this job's part in it.
typedef struct dsa_terms {
  uint32_t struct_size;
  uint32_t place;              ///< of this job, below `jobs`; another's once this job has left
  uint32_t jobs;               ///< that take part at once, at most; the first epoch waits for as many
  uint32_t batch_size;         ///< samples of a full batch
  uint32_t held;               ///< batches that this job may hold at once
  uint32_t producers;          ///< DSA_PRODUCERS_...
  uint64_t samples;            ///< of an epoch
  uint64_t batches_per_epoch;  ///< the last one may be shorter
  uint64_t epochs;             ///< of the group; 0: until its coordinator ends it
  uint64_t first_epoch;        ///< that this job gets batches of; they count from 0
  uint64_t seed;               ///< of order and augmentation
  uint64_t slot_bytes;         ///< of memory that a batch takes, ids and labels included
  dsa_dtype dtype;             ///< of the samples' elements
  int32_t ndim;
  int64_t shape[DSA_MAX_DIMENSIONS];    ///< of a full batch; the number of samples first
  int64_t strides[DSA_MAX_DIMENSIONS];  ///< in elements
  const char* dataset_digest;           ///< valid until dsa_detach(), as the next
  const char* prep;                     ///< in words: "image 224 x 224, ..., uint8, NHWC"
} dsa_terms;
#define DSA_TERMS_INIT \
  { (uint32_t)sizeof(dsa_terms), 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, {0, 0, 0}, 0, {0}, {0}, NULL, NULL }
/// Errors: DSA_INVALID, DSA_FORKED.
dsa_status dsa_info(dsa_client* client, dsa_terms* terms);

/// A batch, in the memory that all jobs of the group read it from: not to be written (the memory is mapped for reading alone). samples, shape,
/// strides and dtype are those of a DLTensor on the CPU. Sample i of the batch has ids[i] and labels[i].
typedef struct dsa_batch {
  uint32_t struct_size;
  uint32_t count;          ///< good samples: shape[0]. 0 when all of the batch's samples failed
  uint32_t failed;         ///< samples of the batch that could not be had, and are left out or stood in for
  uint32_t last_of_epoch;  ///< 1: the next batch is one of another epoch
  uint64_t epoch;
  uint64_t index;          ///< within its epoch, from 0
  uint64_t token;          ///< for dsa_release(); never 0
  const void* samples;     ///< valid, with ids and labels, until dsa_release() or dsa_detach(). On a boundary of 4 KiB
  const uint32_t* ids;     ///< positions in the dataset's index
  const uint32_t* labels;  ///< classes
  dsa_dtype dtype;
  int32_t ndim;
  int64_t shape[DSA_MAX_DIMENSIONS];
  int64_t strides[DSA_MAX_DIMENSIONS];  ///< in elements
} dsa_batch;
/// A sample that is of a size of its own: the bytes of its file or, with a height and a width, its pixels (rows of three bytes each: red, green,
/// blue). Valid as the batch is.
typedef struct dsa_sample {
  const void* data;
  uint64_t bytes;
  uint32_t height;  ///< in pixels; 0 of bytes of a file
  uint32_t width;
} dsa_sample;
#define DSA_BATCH_INIT                                                                        \
  {                                                                                           \
    (uint32_t)sizeof(dsa_batch), 0, 0, 0, 0, 0, 0, NULL, NULL, NULL, {0, 0, 0}, 0, {0}, { 0 } \
  }

/// The next batch of this job: every batch of the epochs in which it takes part, once each and in order. Waits until it is there, or so many
/// milliseconds: 0 does not wait, negative is DSA_DEFAULT_TIMEOUT_MS. The first epoch begins when all jobs of the group are there, so a first call
/// may well end with DSA_TIMEOUT. Signals that arrive meanwhile do not end the wait. Errors: DSA_TIMEOUT, DSA_END, DSA_BUSY, DSA_LOST (at most a
/// second after the coordinator went), DSA_EXPELLED, DSA_FAILED, DSA_NO_MEMORY, DSA_INVALID, DSA_FORKED. `batch` is written only with DSA_OK.
dsa_status dsa_next(dsa_client* client, dsa_batch* batch, int32_t timeout_ms);

/// Gives a batch back, in any order; its memory may be written from now on.
/// Errors: DSA_INVALID (no batch that is held: released already, or never given), DSA_EXPELLED (it may have been overwritten while it was read: what
/// was computed of it is doubtful), DSA_FORKED. DSA_OK of a batch that is held while the group is lost.
dsa_status dsa_release(dsa_client* client, uint64_t token);

/// A descriptor for event loops (an eventfd, of the client: not to be closed): readable when a batch may have come, when the group has ended, is
/// lost, or this job was put out. Read its 8 bytes, then call dsa_next(client, &batch, 0) until that returns no DSA_OK, or DSA_BUSY: then again after
/// a release. At the first call the library starts a thread that looks out for batches. Errors: DSA_INVALID, DSA_FORKED, DSA_FAILED (no thread to be
/// had), DSA_NO_MEMORY.
dsa_status dsa_event_fd(dsa_client* client, int* descriptor);

/// This job takes no part in epochs after this one. An epoch that is open already, which the next one is before the last ends, is left at its end all
/// the same: say so an epoch before. Until then nothing changes. Takes effect when a dsa_next() that waits in another thread has returned.
/// Errors: DSA_INVALID, DSA_FORKED.
dsa_status dsa_leave_after(dsa_client* client, uint64_t epoch);

/// Leaves the group now: what this job holds counts as released (it must not be read any more), what it had not made becomes others' work. A
/// dsa_next() that waits, or comes later, ends with DSA_END. Errors: DSA_INVALID, DSA_FORKED.
dsa_status dsa_leave(dsa_client* client);

/// Leaves, waits for the library's threads of this client (reads of storage that are in flight are waited for), and gives everything back: what
/// batches of it point to is gone. NULL is allowed. In a child that was forked: lets go of the child's copy; the parent stays a member.
/// Errors: DSA_INVALID (no client, or detached already).
dsa_status dsa_detach(dsa_client* client);

/// Why this client gets no batches any more, in words, whichever thread was told so; "" while it does. Never NULL; valid until the calling thread's
/// next call.
const char* dsa_error(dsa_client* client);

// A loader of this process's own: dsanalyze's, in threads of this process. It gives an epoch's batches and then those of the next one, without end.
// What holds of clients above (errors, threads, fork(), struct sizes) holds of loaders too.

/// A loader. Not a pointer to anything, as dsa_client.
typedef struct dsa_loader dsa_loader;

/// Opens a dataset and begins to load it. `options` is a JSON object:
///   settings    needed; keys as "settings" of a profile has them, of which a loader takes dataset (needed), batch_size, dtype, layout, seed,
///               workers, cache, order, shuffle_buffer_samples, readers, io, read_mode, fetch_concurrency, on_error, error_budget_fraction,
///               image_key and label_key
///   cache_size  "35%" of the dataset, or "20GiB"; without it samples are in the kernel's page cache alone, as with cache "page"
///   prep        crop {size, scale, ratio}, flip_probability, mean, deviation, as "prep" of a workload's file has them
///   samples     "prepared" if it is left out; "decoded" for whole images in their own sizes, or "encoded" for files as they are: elements of a
///               batch are dsa_sample then, and prep, crop and resize are not asked; dtype must be "uint8"
///   crop        "random_resized", or "centre": the shorter side becomes `resize` pixels (crop.size if it is left out), and the middle is used
///   rank, world this process's part of each global mini-batch of world x batch_size samples; 0 and 1 if left out
///   rendezvous  of ranks whose settings have a partition ("partitioned": each sample is in the cache of one rank, which the others ask for it;
///               "locality": each rank trains what it holds), with cache "minio" and a cache_size of each rank's own: HOST:PORT where rank 0
///               listens, or a file on a file system that all share
///   listen      where the others reach this rank: an address, a network or an interface; 127.0.0.1 if left out
///   key         64 hexadecimal digits, the same in all ranks, or key_file, their file; needed where rank 0 listens beyond this machine
///   meeting_timeout, peer_timeout, epoch_timeout
///               seconds for all ranks to come (60), without a word of one until it is lost (20), and for which they wait for one another at an
///               epoch's begin (1,800)
///   held        batches that may be held at once, 1 to 64; 1 if left out
///   index       an index file that `dsanalyze dataset index` made
///   background  true: does not wait until the dataset is open, which may take long for many files. dsa_loader_ready() and dsa_loader_next() wait
///               for that, and dsa_loader_close() gives it up; what asks for more of the loader ends with DSA_TIMEOUT until then. What opening
///               failed with is the answer of each call: DSA_FAILED, DSA_INVALID or DSA_NO_MEMORY. false if left out
/// Errors: DSA_INVALID (options), DSA_FAILED (the dataset cannot be opened), DSA_NO_MEMORY. *loader is NULL unless DSA_OK is returned.
dsa_status dsa_loader_open(const char* options, dsa_loader** loader);

/// What it loads. `jobs` and `place` are `world` and `rank`; batches_per_epoch are those of this rank; what is of groups alone is 0.
/// Errors: DSA_INVALID, DSA_FORKED.
dsa_status dsa_loader_info(dsa_loader* loader, dsa_terms* terms);

/// Waits until the dataset is open and the ranks of a partition have met, as dsa_next() waits. All of them then begin with the same batch, and
/// go on elsewhere together: each rank calls dsa_loader_seek() as often as the others. Errors: DSA_TIMEOUT, DSA_END (the loader was closed
/// meanwhile), DSA_INVALID (the ranks contradict one another), DSA_FAILED (not all came, or the dataset cannot be opened), DSA_NO_MEMORY, DSA_FORKED.
dsa_status dsa_loader_ready(dsa_loader* loader, int32_t timeout_ms);

/// The next batch, as dsa_next(); its memory may be written until it is released. Errors: DSA_TIMEOUT, DSA_BUSY, DSA_END (the loader was closed
/// meanwhile), DSA_FAILED (more samples failed than may, or a rank of a partition was lost), DSA_NO_MEMORY, DSA_INVALID, DSA_FORKED.
dsa_status dsa_loader_next(dsa_loader* loader, dsa_batch* batch, int32_t timeout_ms);

/// Gives a batch back, also one of a loader that was closed meanwhile. Errors: DSA_INVALID, DSA_FORKED.
dsa_status dsa_loader_release(dsa_loader* loader, uint64_t token);

/// The place before a batch (dsa_batch.epoch and index), in one line of text of so many bytes with the closing zero: for dsa_loader_seek() of a
/// loader of the same dataset, batch_size, world, seed and order. Behind an epoch's last batch lies the next one's first. *size is the room in
/// `text`, and becomes what the text takes; with a room of 0 nothing is written. Errors: DSA_INVALID (too little room, no such batch), DSA_FORKED.
dsa_status dsa_loader_state(dsa_loader* loader, uint64_t epoch, uint64_t index, char* text, size_t* size);

/// Goes on there instead. Batches that are held stay valid; a dsa_loader_next() that waits in another thread ends with DSA_END. Its cache stays.
/// Errors: DSA_INVALID (of another dataset, seed or order; in mid-epoch, of another batch size), DSA_FORKED, DSA_NO_MEMORY.
dsa_status dsa_loader_seek(dsa_loader* loader, const char* state);

/// What the dataset is, what was read and prepared since dsa_loader_open(), and what failed, as a JSON object; `text` and `size` as above.
/// Errors: DSA_INVALID, DSA_FORKED.
dsa_status dsa_loader_report(dsa_loader* loader, char* text, size_t* size);

/// Prepares nothing more. What batches that are held point to stays until they are released; the threads that read end with the last of them. NULL is
/// allowed. Errors: DSA_INVALID (no loader, or closed already).
dsa_status dsa_loader_close(dsa_loader* loader);

#ifdef __cplusplus
}
#endif
#endif
