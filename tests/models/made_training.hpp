#pragma once

#include <algorithm>

#include "models/whatif/training_model.hpp"

namespace dsanalyze::testing {

/// A loader whose samples take a worker `seconds`, of which it computes `cpu`; training that computes nothing on the CPU.
struct Made {
  double seconds = 0.01, cpu = 0.001, take = 0.0001, step = 0.02, batch = 16, outside = 0.002;
  int workers = 2, ranks = 1;
  double cores = 8;

  [[nodiscard]] double prep(int n, double on_cores) const { return std::min({ranks * n / seconds, on_cores / (cpu + take), ranks / take}); }
  [[nodiscard]] double steps(double speed) const {
    const double all = ranks * batch;
    const double delivery = batch * take;
    return all / ((step - outside) / speed + outside + delivery);
  }
  [[nodiscard]] TrainingModel model() const {
    TrainingModel model;
    model.ranks = ranks;
    model.workers = workers;
    model.cores = cores;
    for (const int n : {1, 2, 4, 8}) model.prep.push_back({n, prep(n, cores), 0.01, cpu});
    model.worker_cpu = cpu;
    model.slice_seconds = slice_on(static_cast<int>(cores));
    model.thread_cpu = model.take_over = take;
    model.training_cpu = 0;
    model.step_samples = ranks * batch;
    model.ingestion = ranks * batch / step;
    model.ingestion_error = 0.01;
    model.outside_seconds = outside;
    model.found = std::min(prep(workers, cores), steps(1));
    model.ci95_found = {0.99 * model.found, 1.01 * model.found};
    model.shares_cores = true;
    model.path = path_of(model);
    return model;
  }
};

}  // namespace dsanalyze::testing
