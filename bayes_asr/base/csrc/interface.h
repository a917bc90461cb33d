// What a compiled library says of itself, and Python compares at loading: the fields of each struct
// that both sides know, and what each function takes.  base/shared_library.py makes the same text of its own.

#pragma once

#include <cstddef>
#include <initializer_list>
#include <sstream>
#include <string>
#include <type_traits>

// Describe a struct by the names of its fields.  The list stands next to the struct and is
// complete: a structured binding takes as many names as there are fields, each name that of a field.
#define DESCRIBE(Struct, ...)                                                                 \
  struct Struct##Fields : Struct {                                                            \
    static void All(const Struct &one) { [[maybe_unused]] const auto &[__VA_ARGS__] = one; }  \
    void AddTo(Interface *to) const {                                                         \
      to->AddStruct(#Struct, #__VA_ARGS__, static_cast<const Struct *>(this), __VA_ARGS__);   \
    }                                                                                         \
  }

#define NAMED(function) #function, function  // for Interface::Function

class Interface {
 public:
  // Fields: what DESCRIBE made.
  template <class Fields>
  Interface &Struct() {
    Fields{}.AddTo(this);
    return *this;
  }

  template <class Result, class... Argument>
  Interface &Function(const char *name, Result (*)(Argument...)) {
    AddFunction(name, TypeOf<Result>(), {TypeOf<Argument>()...});
    return *this;
  }

  template <class Struct, class... Field>
  void AddStruct(const char *name, const char *fields, const Struct *whole,
                 const Field &...field) {
    AddFields(name, fields, whole, {{&field, sizeof field}...});
    text_ << name << ": " << sizeof(Struct) << " bytes\n";
  }

  std::string text() const { return text_.str(); }

 private:
  struct Place {
    const void *at;
    size_t size;
  };

  // fields: their names, separated by commas.
  void AddFields(const char *name, const char *fields, const void *whole,
                 std::initializer_list<Place> places) {
    std::istringstream names(fields);
    for (const Place &place : places) {
      std::string field;
      std::getline(names >> std::ws, field, ',');
      text_ << name << "." << field << ": " << place.size << " bytes at "
            << static_cast<const char *>(place.at) - static_cast<const char *>(whole) << "\n";
    }
  }

  void AddFunction(const char *name, const char *result,
                   std::initializer_list<const char *> arguments) {
    text_ << name << ": " << result << " of";
    for (const char *argument : arguments) text_ << " " << argument;
    text_ << "\n";
  }

  template <class T>
  static constexpr const char *TypeOf() {
    if constexpr (std::is_void_v<T>) {
      return "nothing";
    } else if constexpr (std::is_pointer_v<T>) {
      return "pointer";
    } else {
      static_assert(std::is_arithmetic_v<T> && sizeof(T) >= 4, "Python is not told of this type");
      if (std::is_integral_v<T>) return sizeof(T) == 8 ? "int64" : "int32";
      return sizeof(T) == 8 ? "float64" : "float32";
    }
  }

  std::ostringstream text_;
};
