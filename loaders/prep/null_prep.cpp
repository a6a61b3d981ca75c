#include "prep.hpp"

namespace dsanalyze {
namespace {

class NullPrep : public Prep {
 public:
  Status prepare(const PrepTask&) override { return {}; }
  [[nodiscard]] std::vector<Nanoseconds> operator_times() const override { return {}; }
};

class NullPrepFactory : public PrepFactory {
 public:
  explicit NullPrepFactory(const TensorShape& tensor_like) : m_tensor(tensor_like) {}
  [[nodiscard]] std::unique_ptr<Prep> make() const override { return std::make_unique<NullPrep>(); }
  [[nodiscard]] TensorShape tensor(std::int64_t count) const override {
    TensorShape shape = m_tensor;
    shape.shape[0] = count;
    return shape;
  }
  [[nodiscard]] std::vector<std::string_view> operator_names() const override { return {}; }

 private:
  TensorShape m_tensor;
};

}  // namespace

std::unique_ptr<PrepFactory> make_null_prep(const TensorShape& tensor_like) { return std::make_unique<NullPrepFactory>(tensor_like); }

}  // namespace dsanalyze
