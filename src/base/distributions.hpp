#pragma once

namespace dsanalyze {

// Distribution functions of the normal and of Student's t, and their inverses. Quantiles take 0 < p < 1; all throw std::domain_error outside.
// Relative error of the functions is below 1e-10, of the quantiles below 1e-9. Pure; threads: any.

double normal_cdf(double z);
double normal_quantile(double p);
/// Student's t with `degrees` > 0 degrees of freedom, which need not be whole (Welch).
double student_t_cdf(double t, double degrees);
double student_t_quantile(double p, double degrees);

}  // namespace dsanalyze
