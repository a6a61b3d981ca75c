// The page's what-if: the closed forms of `dsanalyze whatif` (models/whatif/whatif.hpp), for one job on one server, and their sliders.
// A model is what models/whatif/live_model.cpp writes. A position names the sliders that were moved ({cache_fraction: 0.5, cores: 8}), as `change` of the
// record dsanalyze.whatif/1 does; what it does not name stays as measured.
(function () {
  'use strict';

  // ---- The equations, each as in the file that is named.

  // models/whatif/miss_model.cpp: which part of storage's time remains.
  function costAwareShare(cache, cached) {
    const samples = cache.sizes_bytes.map((bytes) => ({
      bytes: bytes,
      seconds: cache.seconds_per_request + cache.seconds_per_byte * bytes,
      priority: bytes > 0 ? Math.fround(cache.seconds_per_request / bytes + cache.seconds_per_byte) : 0,
    })).sort((a, b) => b.priority - a.priority);
    let bytes = 0;
    let seconds = 0;
    for (const sample of samples) {
      bytes += sample.bytes;
      seconds += sample.seconds;
    }
    let room = Math.round(cached * bytes);
    let held = 0;
    for (let at = 0; at < samples.length;) {
      const priority = samples[at].priority;
      let groupBytes = 0;
      let groupSeconds = 0;
      for (; at < samples.length && samples[at].priority === priority; at += 1) {
        if (samples[at].bytes === 0) continue;
        groupBytes += samples[at].bytes;
        groupSeconds += samples[at].seconds;
      }
      if (groupBytes > room) return Math.max(0, 1 - (held + groupSeconds * (room / groupBytes)) / seconds);
      room -= groupBytes;
      held += groupSeconds;
    }
    return Math.max(0, 1 - held / seconds);
  }

  // core/page_cache_forms.cpp: where f, positive at first, falls below 0 in (0, 1).
  function root(f) {
    let low = 0;
    let high = 1;
    for (let step = 0; step < 60; step += 1) {
      const middle = (low + high) / 2;
      if (f(middle) > 0) low = middle;
      else high = middle;
    }
    return (low + high) / 2;
  }

  function storageShare(cache, fraction) {
    if (fraction === null && cache.form === 'table') return cache.measured_storage_share;
    const c = Math.min(1, Math.max(0, fraction === null ? cache.fraction : fraction));
    if (c >= 1) return 0;
    switch (cache.form) {
      case 'none': return 1;
      case 'cost_aware': return costAwareShare(cache, c);
      case 'lru': return 1 - c - (1 - c) * Math.log1p(-c);
      case 'random': return c === 0 ? 1 : 1 + c * Math.log1p(c * Math.expm1(-1 / c));
      case 'random_in_order': return c === 0 ? 1 : root((m) => (m === 0 ? 1 : 1 - m - Math.exp(-m / c)));
      // Replayed for each of the slider's values.
      case 'table': return cache.storage_shares[Math.round(c * (cache.storage_shares.length - 1))];
      default: return 1 - c;
    }
  }

  // core/scaling.cpp and models/fits/fits.cpp: what so many cores do together, corrected at the measured points.
  function effectiveCores(fit, threads) {
    const host = fit.host_threads === null ? Infinity : fit.host_threads;
    if (threads > host) return threads / host * effectiveCores(fit, host);
    const physical = fit.physical_cores === null ? Infinity : fit.physical_cores;
    const beyond = threads > physical ? fit.thread_share * (threads - physical) : 0;
    return Math.min(threads, physical) + beyond;
  }

  function lawRate(fit, threads) {
    const n = effectiveCores(fit, threads);
    return fit.one_core * n / Math.max(1 + fit.contention * (n - 1) + fit.coherence * n * (n - 1), 1e-9);
  }

  function correction(points, cores) {
    if (points.length === 0) return 1;
    const last = points[points.length - 1];
    if (cores <= points[0].cores) return points[0].factor;
    if (cores >= last.cores) return last.factor;
    const at = points.findIndex((point) => point.cores >= cores);
    const below = points[at - 1];
    const above = points[at];
    const share = Math.log(cores / below.cores) / Math.log(above.cores / below.cores);
    return below.factor * Math.pow(above.factor / below.factor, share);
  }

  function prepRate(fit, cores) {
    const fitted = lawRate(fit, cores) * correction(fit.corrections, cores);
    if (fit.corrections.length < 2) return fitted;
    // Where the last cores measured brought less, no law that levels noise out makes more of them bring more.
    const [before, last] = fit.corrections.slice(-2);
    const lastRate = lawRate(fit, last.cores) * last.factor;
    return cores > last.cores && lastRate < lawRate(fit, before.cores) * before.factor ? Math.min(fitted, lastRate) : fitted;
  }

  function prepFactor(fit, from, to) {
    return prepRate(fit, to) / prepRate(fit, from);
  }

  // P on `to` cores, reckoned from P on `from`; where that is a point of the fit, it is the fit's rate, and its own error is not counted twice.
  function scaledError(scaling, from, to, fromError) {
    const moved = (value) => {
      const here = value(scaling.fit);
      let sum = 0;
      for (const both of scaling.moved_by_errors) {
        let most = 0;
        for (const fit of [both.lower, both.higher])
          if (fit.one_core > 0) most = Math.max(most, Math.abs(value(fit) / here - 1));
        sum += most * most;
      }
      return Math.sqrt(sum);
    };
    const isPoint = scaling.fit.corrections.some((point) => Math.abs(point.cores - from) <= 1e-6 * from);
    if (from === to) return fromError;
    if (!isPoint) return Math.hypot(fromError, moved((fit) => prepFactor(fit, from, to)));
    return moved((fit) => prepRate(fit, to));
  }

  // core/rates.cpp: F = 1 / (x/C + (1-x)/S)  [DS-Analyzer, Eq 4].
  function fetchRate(hits, cacheRate, storageRate) {
    return 1 / (hits / cacheRate + (1 - hits) / storageRate);
  }

  // models/whatif/whatif_evaluate.cpp: what an error of C or S makes of F, as a share of it.
  function movedFetch(at, error) {
    if (error <= 0) return 0;
    const small = 1e-4;
    const fetch = at(1);
    return isFinite(fetch) ? (at(1 + small) - at(1 - small)) / (2 * small * fetch) * error : 0;
  }

  function withError(value, error) {
    return { value: value, low: value * Math.max(0, 1 - error), high: value * (1 + error) };
  }

  function given(position, name) {
    return position && position[name] !== undefined && position[name] !== null ? position[name] : null;
  }

  function evaluate(model, position) {
    const errors = model.relative_errors;
    const cores = given(position, 'cores');
    let prep = model.P;
    let prepError = errors.P;
    if (cores !== null) {
      prep *= prepFactor(model.prep_scaling.fit, model.cores, cores);
      prepError = scaledError(model.prep_scaling, model.cores, cores, prepError);
    }
    let ingestion = model.G;
    if (ingestion !== null) {
      if (given(position, 'accelerator_speed') !== null) ingestion *= position.accelerator_speed;
      if (given(position, 'accelerators') !== null) ingestion *= position.accelerators / model.accelerators;
    }
    let ingestionError = errors.G;
    let transfer = model.H;
    if (transfer !== null && given(position, 'accelerators') !== null) transfer *= position.accelerators / model.accelerators;
    if (ingestion !== null && transfer !== null && transfer < ingestion) {
      ingestion = transfer;
      ingestionError = errors.H;
    }
    let storage = model.S;
    if (given(position, 'storage_factor') !== null) storage *= position.storage_factor;
    const cache = model.C === null ? Infinity : model.C;
    const hits = 1 - storageShare(model.cache, given(position, 'cache_fraction'));
    const fetch = fetchRate(hits, cache, storage);
    const fetchError = Math.min(1, Math.hypot(
      isFinite(cache) ? movedFetch((factor) => fetchRate(hits, cache * factor, storage), errors.C) : 0,
      movedFetch((factor) => fetchRate(hits, cache, storage * factor), errors.S)));

    // A tie goes to the accelerator first, then to prep: without a stall, nothing else is to blame.
    const named = [];
    if (ingestion !== null) named.push({ resource: 'gpu', rate: ingestion });
    named.push({ resource: 'cpu', rate: prep }, { resource: 'io', rate: fetch });
    named.sort((a, b) => a.rate - b.rate);

    const estimates = { cpu: withError(prep, prepError), io: withError(fetch, fetchError) };
    if (ingestion !== null) estimates.gpu = withError(ingestion, ingestionError);
    const lowest = estimates[named[0].resource];
    // An interval that begins at nothing is a rate that is not known, of one window for one: nothing is sure of it.
    const close = (other) => lowest.low <= 0 || (lowest.low <= other.high && other.low <= lowest.high) || other.low <= 0;
    const rivals = named.slice(1).filter((other) => close(estimates[other.resource]));
    const ends = Object.values(estimates);
    return {
      samples_per_s: named[0].rate,
      ci95_samples_per_s: { low: Math.min(...ends.map((e) => e.low)), high: Math.min(...ends.map((e) => e.high)) },
      G: ingestion, P: prep, F: fetch, C: cache, S: storage,
      bottleneck: named[0].resource,
      next: (rivals.length > 0 ? rivals[0] : named[1]).resource,
      extrapolation: extrapolation(model, position),
      too_close: rivals.length > 0,
      epoch_seconds: model.dataset.samples === null ? null : model.dataset.samples / named[0].rate,
      stalls: ingestion === null ? null : stallShares(fetch, prep, ingestion),
    };
  }

  // models/whatif/whatif_extrapolation.cpp: by which factor some resource goes beyond what was measured.
  const mostExtrapolation = 4;
  function extrapolation(model, position) {
    const high = model.prep_scaling.measured_cores_high;
    const cores = given(position, 'cores');
    const accelerators = given(position, 'accelerators');
    return Math.max(1, given(position, 'storage_factor') || 1, cores === null || high === null ? 1 : cores / high,
      (accelerators === null ? 1 : accelerators / model.accelerators) * (given(position, 'accelerator_speed') || 1));
  }

  function stallShares(fetch, prep, ingestion) {
    const compute = 1 / ingestion;
    const cached = 1 / Math.min(prep, ingestion);
    const full = 1 / Math.min(fetch, prep, ingestion);
    return { compute: compute / full, prep: (cached - compute) / full, fetch: (full - cached) / full };
  }

  function compute(model, position) {
    const result = evaluate(model, position);
    result.speedup = result.samples_per_s / evaluate(model, {}).samples_per_s;
    return result;
  }

  // ---- Words.

  // A decimal that reads back as the same number, without the noise of binary fractions: 35, not 35.00000000000001.
  function plain(value) {
    return String(Number(value.toPrecision(12)));
  }

  function percents(fraction) {
    return plain(fraction * 100) + '%';
  }

  function roundNumber(value) {
    const digits = Math.abs(value) >= 99.5 ? { maximumFractionDigits: 0 } : { maximumSignificantDigits: 3 };
    return value.toLocaleString('en-US', digits);
  }

  function share(value) {
    return roundNumber(Math.round(value * 1000) / 10) + ' %';
  }

  function duration(seconds) {
    if (seconds === null) return 'not known';
    if (seconds < 59.95) return roundNumber(seconds) + ' s';
    const whole = Math.round(seconds);
    const two = (value) => String(value).padStart(2, '0');
    if (whole < 3600) return Math.floor(whole / 60) + ' min ' + two(whole % 60) + ' s';
    const minutes = Math.floor((whole + 30) / 60);
    return roundNumber(Math.floor(minutes / 60)) + ' h ' + two(minutes % 60) + ' min';
  }

  function scaled(value, step, units) {
    let unit = 0;
    for (; unit + 1 < units.length && Math.round(value) >= step; unit += 1) value /= step;
    return roundNumber(value) + ' ' + units[unit];
  }

  const binds = {
    gpu: 'the accelerators are the bottleneck [G]: data waits for them',
    cpu: 'prep is the bottleneck [P]: decoding and augmenting on the CPU',
    io: 'fetch is the bottleneck [F]: reading from storage and cache',
  };
  const resources = { gpu: 'the accelerators', cpu: 'prep', io: 'fetch' };

  const sliderTexts = {
    cache_fraction: {
      label: 'Cache, of the dataset',
      option: (value) => '--cache-size ' + percents(value),
      text: (value, model) => plain(Math.round(value * 1000) / 10) + ' %' +
        (model.dataset.bytes === null ? '' : ' (' + scaled(value * model.dataset.bytes, 1024, ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB']) + ')'),
    },
    cores: {
      label: 'CPU cores for prep',
      option: (value) => '--cores ' + plain(value),
      text: (value) => plain(value) + (value === 1 ? ' core' : ' cores'),
    },
    accelerator_speed: {
      label: 'Speed of an accelerator',
      option: (value) => '--accelerator-speed ' + plain(value) + 'x',
      text: (value) => plain(value) + 'x',
    },
    accelerators: {
      label: 'Number of accelerators',
      option: (value) => '--accelerators ' + plain(value),
      text: (value) => plain(value),
    },
    storage_factor: {
      label: 'Storage speed',
      option: (value) => '--storage ' + plain(value) + 'x',
      text: (value, model) => plain(value) + 'x' +
        (model.storage_bytes_per_s === null ? '' : ' (' + scaled(value * model.storage_bytes_per_s, 1000, ['B/s', 'kB/s', 'MB/s', 'GB/s', 'TB/s']) + ')'),
    },
  };

  function commandLine(model, position) {
    const options = model.sliders.filter((slider) => given(position, slider.name) !== null)
      .map((slider) => sliderTexts[slider.name].option(position[slider.name]));
    // All factors at once are one of the combinations that --all answers.
    return [model.command, ...options, ...(options.length > 1 ? ['--all'] : [])].join(' ');
  }

  function sentence(result) {
    const range = roundNumber(result.ci95_samples_per_s.low) + ' to ' + roundNumber(result.ci95_samples_per_s.high);
    const change = Math.abs(result.speedup - 1) < 5e-4 ? 'as fast as by the profile’s rates' : plain(Number(result.speedup.toPrecision(3))) + ' times as fast as by the profile’s rates';
    const epoch = result.epoch_seconds === null ? '' : ', ' + duration(result.epoch_seconds) + ' an epoch';
    const close = result.too_close
      ? 'The bottleneck is inconclusive: ' + resources[result.bottleneck] + ' or ' + resources[result.next] + '.'
      : 'Here ' + binds[result.bottleneck] + '; after it, ' + resources[result.next] + '.';
    const sides = result.G === null ? ' The accelerators’ rate is not known: this is what the data side can feed.' : '';
    return roundNumber(result.samples_per_s) + ' samples/s (95 %: ' + range + '), ' + change + epoch + '. ' + close + sides;
  }

  window.DsanalyzeWhatIf = {
    compute: compute,
    mostExtrapolation: mostExtrapolation,
    commandLine: commandLine,
    words: { sentence: sentence, share: share, duration: duration, number: roundNumber, resources: resources, sliders: sliderTexts },
  };
}());
