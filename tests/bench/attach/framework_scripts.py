"""Trainings without PyTorch, for other_loaders.py: each has its library's own loader, and one line, `for batch in dsanalyze.watch(loader)`."""

DRAIN = r'''
def drain(loader, samples_of):
    samples, seconds, first = 0, 0.0, time.monotonic()
    while time.monotonic() - first < 12:
        begun = None
        for number, batch in enumerate(loader):
            now = time.monotonic()
            if begun is not None: samples += samples_of(batch); seconds += now - begun
            if begun is not None or number + 1 == 2 * WORKERS: begun = now
            if now - first > 12: break
    print("RATE", samples / seconds); sys.stdout.flush(); os._exit(0)
'''
COMMON = DRAIN + r'''
import glob, io, os, sys, time
os.environ.update(OMP_NUM_THREADS="1", TF_CPP_MIN_LOG_LEVEL="3", XLA_FLAGS="--xla_cpu_multi_thread_eigen=false")
import numpy as np
from PIL import Image
import dsanalyze
PHOTOS, WORK, DRAIN = sys.argv[1], sys.argv[2], len(sys.argv) > 3
FILES = sorted(glob.glob(PHOTOS + "/**/*.jpg", recursive=True))
BATCH, WORKERS = 16, 2

def decoded(name):
    with open(name, "rb") as file, Image.open(io.BytesIO(file.read())) as image:
        return np.asarray(image.convert("RGB").resize((64, 64)), np.float32)

def train(loader, step, seconds=120):
    if DRAIN:
        drain(loader, len)
    begun = time.monotonic()
    while time.monotonic() - begun < seconds:
        for batch in dsanalyze.watch(loader):
            step(batch); time.sleep(0.005)
'''
JAX = r'''
import jax, jax.numpy as jnp
def loss(weight, images): return jnp.mean((images.reshape(images.shape[0], -1) @ weight) ** 2)
update = jax.jit(lambda weight, images: weight - 1e-9 * jax.grad(loss)(weight, images), donate_argnums=0)
weight = jnp.zeros((64 * 64 * 3, 10))
def step(images):
    global weight
    weight = update(weight, images)
'''
SCRIPTS = {
    "JAX, dsanalyze.watch()": JAX + r'''
from concurrent.futures import ThreadPoolExecutor
class Threads:
    """Two threads decode, some batches ahead."""
    def __iter__(self):
        with ThreadPoolExecutor(WORKERS) as pool:
            names, waiting = iter(range(0, len(FILES) - BATCH, BATCH)), []
            for at in names:
                waiting.append([pool.submit(decoded, name) for name in FILES[at:at + BATCH]])
                if len(waiting) > 4: yield np.stack([image.result() for image in waiting.pop(0)])
            for batch in waiting: yield np.stack([image.result() for image in batch])
train(Threads(), step)''',
    "grain, dsanalyze.watch()": JAX + r'''
import grain.python as grain
made = grain.MapDataset.source(FILES).map(decoded).batch(BATCH, drop_remainder=True)
train(made.to_iter_dataset(grain.ReadOptions(num_threads=WORKERS, prefetch_buffer_size=4 * BATCH)), step)''',
    "tf.data, dsanalyze.watch()": r'''
import tensorflow as tf
tf.config.threading.set_intra_op_parallelism_threads(1); tf.config.threading.set_inter_op_parallelism_threads(2)
def read(name): return tf.image.resize(tf.io.decode_jpeg(tf.io.read_file(name), channels=3), (64, 64))
made = tf.data.Dataset.from_tensor_slices(FILES).map(read, num_parallel_calls=WORKERS).batch(BATCH, drop_remainder=True).prefetch(2)
weight = tf.Variable(tf.zeros((64 * 64 * 3, 10)))
@tf.function
def step(images):
    with tf.GradientTape() as tape: loss = tf.reduce_mean(tf.square(tf.reshape(images, (BATCH, -1)) @ weight))
    weight.assign_sub(1e-9 * tape.gradient(loss, weight))
train(made, step)''',
}
TEXTS = {name: COMMON + text for name, text in SCRIPTS.items()}
